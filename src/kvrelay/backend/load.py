"""From a model's config file in ``conf/model`` to a loaded, gated model."""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging as transformers_logging

from kvrelay.backend.attention import ATTENTION_NAME, register_attention
from kvrelay.backend.device import own_device
from kvrelay.backend.model import CausalModel, ModelFacts
from kvrelay.backend.scope import refuse_out_of_scope, rope_parameters
from kvrelay.backend.tiny import SEEDED, seeded_folder
from kvrelay.backend.weights import read_weights, written_once
from kvrelay.core.errors import AssetError, ConfigError, InvariantError, KVRelayError
from kvrelay.core.rope import RotarySpec

log = logging.getLogger(__name__)
CONVERTED = "converted"
LEAST_RANGE = 16
"""Positions without which not even the gate's text has room."""
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""Looked for before transformers is asked, because some of its versions make an empty tokenizer up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Which model, and how it is run.

    ``source``: a hub id, a local folder, ``package:NAME`` for weights that a Python package ships, or ``seeded:FAMILY``
    for a tiny random model. ``gguf_file`` names a GGUF file, which is dequantised once and kept under
    ``cache_folder``. ``rope_parameters`` replace the config's (static YaRN for Qwen2); ``position_range`` overrides the
    range that the config states. ``expected_attention_scaling`` is checked by the gate, because YaRN is easily off
    without a word. ``answer_eos`` are further tokens that end an answer. ``template_options`` are variables of the chat
    template (``enable_thinking: false`` for Qwen3).
    """

    name: str
    source: str
    revision: str | None = None
    gguf_file: str | None = None
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    device: str = "cpu"
    chat_template: bool = True
    template_options: dict[str, Any] = field(default_factory=dict)
    rope_parameters: dict[str, Any] = field(default_factory=dict)
    position_range: int | None = None
    expected_attention_scaling: float | None = None
    answer_eos: tuple[str, ...] = ()
    cache_folder: str = "outputs/models"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ConfigError(
                f"device {self.device!r} is unknown; wanted cpu, cuda, cuda:N, mps or auto (key: model.*.device)"
            )
        if not self.source.strip():
            raise ConfigError(f"model {self.name}: source is empty; wanted a folder or a hub id (key: model.*.source)")
        if self.position_range is not None and self.position_range < LEAST_RANGE:
            raise ConfigError(
                f"model {self.name}: position_range is {self.position_range}; wanted at least {LEAST_RANGE} "
                "(key: model.*.position_range)"
            )

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)


def read_config(spec: ModelSpec) -> Any:
    """The model's config with the spec's rotary settings, in scope; no weights are read."""
    folder, extra = _located(spec)
    config = _try(spec, lambda: AutoConfig.from_pretrained(folder, **extra, trust_remote_code=False))
    if spec.rope_parameters:
        config.rope_parameters = {**rope_parameters(config), **spec.rope_parameters}
    refuse_out_of_scope(config, spec.name)
    return config


def read_tokenizer(spec: ModelSpec) -> Any:
    """The model's tokenizer; a folder without one is an `AssetError`."""
    folder, extra = _located(spec)
    if (
        Path(folder).is_dir()
        and "gguf_file" not in extra
        and not any((Path(folder) / one).is_file() for one in VOCABULARIES)
    ):
        raise AssetError(
            f"model {spec.name}: {folder} has no tokenizer ({', '.join(VOCABULARIES)}); copy the model's tokenizer "
            f"files there (key: model.{spec.name}.source)"
        )
    return _try(spec, lambda: _tokenizer(folder, extra), "tokenizer")


def _tokenizer(folder: str, extra: dict[str, Any]) -> Any:
    # said aloud: without it transformers asks on the terminal, and waits, where a folder brings code of its own
    return AutoTokenizer.from_pretrained(folder, **extra, trust_remote_code=False)


def facts_of(spec: ModelSpec, config: Any) -> ModelFacts:
    """`ModelFacts` from a config, without loading weights."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    parameters = rope_parameters(config)
    return ModelFacts(
        name=spec.name,
        n_layers=config.num_hidden_layers,
        n_query_heads=heads,
        n_kv_heads=config.num_key_value_heads or heads,
        head_dim=head_dim,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        position_range=spec.position_range or _stated_range(config, parameters),
        dtype=spec.dtype,
        rope_type=str(parameters.get("rope_type", "default")),
        n_parameters=_parameter_count(config, head_dim),
    )


def load_model(spec: ModelSpec) -> CausalModel:
    """Weights in memory, attention replaced by ours through transformers' own interface, eval mode."""
    folder, extra = _converted(spec)
    config = copy.deepcopy(read_config(spec))
    register_attention()
    _quietly()
    log.info("loading %s from %s (%s, %s)", spec.name, spec.source, spec.dtype, spec.device)
    given: dict[str, Any] = {"config": config, "dtype": spec.torch_dtype, "attn_implementation": ATTENTION_NAME}
    if spec.torch_dtype == torch.float64 and getattr(config, "num_experts_per_tok", None):
        given["experts_implementation"] = "eager"  # grouped matrix products have no float64
    if spec.device == "auto":
        given["device_map"] = "auto"
    module = _try(spec, lambda: read_weights(folder, **given, **extra), "weights")
    if spec.device != "auto":
        module = module.to(own_device(spec.device, torch.cuda.device_count()))
    return wrap_model(module.eval(), facts_of(spec, config), _named_eos(spec))


def check_device(spec: ModelSpec) -> None:
    """Raise `ConfigError` for a device that this machine does not have. A plan can be made without it."""
    kind, _, index = spec.device.partition(":")
    count = torch.cuda.device_count()
    if (kind == "cuda" and int(index or 0) >= count) or (kind == "mps" and not torch.backends.mps.is_available()):
        raise ConfigError(
            f"model {spec.name}: device {spec.device} is not here (this torch, {torch.__version__}, sees {count} CUDA "
            f"devices); wanted cpu, auto or one that is (key: model.{spec.name}.device)"
        )


def wrap_model(module: Any, facts: ModelFacts, more_eos: tuple[int, ...] = ()) -> CausalModel:
    """A `CausalModel` around a stock module whose config already names our attention."""
    rotary = module.get_decoder().rotary_emb
    if rotary.inv_freq.dtype not in (torch.float32, torch.float64):
        raise InvariantError(
            f"model {facts.name}: its rotary frequencies were rounded to {rotary.inv_freq.dtype}, so that far "
            "positions fall together; load it with its dtype in place of converting it (key: model.*.dtype)"
        )
    rope = RotarySpec(
        inv_freq=rotary.inv_freq.detach().float(),
        scaling=float(rotary.attention_scaling),
        rope_type=str(getattr(rotary, "rope_type", "default")),
    )
    return CausalModel(module=module, facts=facts, rope=rope, eos_ids=(*_eos_ids(module), *more_eos))


def _eos_ids(module: Any) -> tuple[int, ...]:
    found = module.generation_config.eos_token_id
    if found is None:
        found = module.config.eos_token_id
    return tuple(found) if isinstance(found, list | tuple) else () if found is None else (int(found),)


def _named_eos(spec: ModelSpec) -> tuple[int, ...]:
    if not spec.answer_eos:
        return ()
    known = read_tokenizer(spec).get_vocab()
    unknown = [token for token in spec.answer_eos if token not in known]
    if unknown:
        raise ConfigError(
            f"model {spec.name}: answer_eos names {unknown[0]!r}, which its tokenizer does not know as one token "
            f"(key: model.{spec.name}.answer_eos)"
        )
    return tuple(known[token] for token in spec.answer_eos)


def _stated_range(config: Any, parameters: dict[str, Any]) -> int:
    if parameters.get("rope_type") == "yarn" and parameters.get("original_max_position_embeddings"):
        return int(parameters["factor"] * parameters["original_max_position_embeddings"])
    return int(config.max_position_embeddings)


def _parameter_count(config: Any, head_dim: int) -> int:
    attention = config.hidden_size * head_dim * 2 * (config.num_attention_heads + config.num_key_value_heads)
    layers = range(config.num_hidden_layers)
    mixed = sum(attention + _feed_forward_count(config, layer) for layer in layers)
    tied = 1 if config.tie_word_embeddings else 2
    return int(mixed + tied * config.vocab_size * config.hidden_size)


def _feed_forward_count(config: Any, layer: int) -> int:
    """Weights of one layer's feed-forward part: dense, or its router and all of its experts."""
    one = 3 * config.hidden_size
    n_experts = getattr(config, "num_local_experts", None)
    if not n_experts or not _has_experts(config, layer):
        return int(one * config.intermediate_size)
    shared = getattr(config, "n_shared_experts", None) or 0
    return int(one * config.moe_intermediate_size * (n_experts + shared) + config.hidden_size * n_experts)


def _has_experts(config: Any, layer: int) -> bool:
    """GLM keeps its first layers dense; Qwen names dense ones, or makes every so many sparse."""
    if (n_dense := getattr(config, "first_k_dense_replace", None)) is not None:
        return layer >= int(n_dense)
    dense = getattr(config, "mlp_only_layers", None) or ()
    return layer not in dense and (layer + 1) % (getattr(config, "decoder_sparse_step", None) or 1) == 0


def _located(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    """(folder or hub id, keywords) to read config and tokenizer from."""
    if spec.gguf_file is not None and (conversion_folder(spec) / "config.json").is_file():
        return str(conversion_folder(spec)), {}
    return _raw_location(spec)


def weight_location(spec: ModelSpec) -> str:
    """The folder (or hub id) that the weights come from, before any conversion."""
    return _raw_location(spec)[0]


def _raw_location(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    extra: dict[str, Any] = {"revision": spec.revision} if spec.revision else {}
    if spec.gguf_file:
        extra["gguf_file"] = spec.gguf_file
    if spec.source.startswith(SEEDED):
        return str(_made(spec, lambda: seeded_folder(spec.source, spec.cache_folder))), extra
    if not spec.source.startswith("package:"):
        path = Path(spec.source).expanduser()
        if spec.source.startswith((".", "/", "~")) and not path.is_dir():
            what = "is no folder" if path.exists() else "does not exist"
            raise AssetError(f"model {spec.name}: folder {spec.source} {what} (key: model.{spec.name}.source)")
        return (str(path) if path.is_dir() else spec.source), extra
    package = spec.source.removeprefix("package:")
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.origin:
        raise AssetError(
            f"model {spec.name}: Python package {package} is not installed; run `make env` "
            f"(key: model.{spec.name}.source)"
        )
    return str(Path(found.origin).parent), extra


def conversion_folder(spec: ModelSpec) -> Path:
    """Where a GGUF file's dequantised weights are kept, one folder a file: models that share a file share it."""
    place = [spec.source.removeprefix("package:"), spec.revision or "", Path(spec.gguf_file or "").stem, CONVERTED]
    return Path(spec.cache_folder) / re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(filter(None, place))).strip("-.")


def _converted(spec: ModelSpec) -> tuple[str, dict[str, Any]]:
    """Where to load weights from. A GGUF file is dequantised once, because that takes longer than a small run."""
    if spec.gguf_file is not None and not (conversion_folder(spec) / "config.json").is_file():
        _convert_gguf(spec, conversion_folder(spec))
    return _located(spec)


def _convert_gguf(spec: ModelSpec, folder: Path) -> None:
    source, extra = _raw_location(spec)
    _quietly()
    log.info("dequantising %s once into %s", spec.gguf_file, folder)
    given: dict[str, Any] = dict(extra)
    try:
        from transformers import GgufConfig

        given["quantization_config"] = GgufConfig(dequantize=True)
    except ImportError:
        log.debug("this transformers always dequantises GGUF files")
    module = _try(spec, lambda: read_weights(source, dtype=torch.float32, **given), "weights")
    tokenizer = _try(spec, lambda: _tokenizer(source, extra), "tokenizer")

    def write(partial: Path) -> None:
        module.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        _drop_quantisation(partial / "config.json")

    _made(spec, lambda: written_once(folder, write))


def _made(spec: ModelSpec, make: Callable[[], Any]) -> Any:
    """Run what writes to the cache folder; a full or read-only disk becomes one `AssetError`."""
    _quietly()
    try:
        return make()
    except KVRelayError:
        raise
    except Exception as error:  # safetensors has a class of its own for a full disk
        raise AssetError(
            f"model {spec.name}: cannot write its files to {spec.cache_folder}: {error}; make room there or choose "
            f"another folder (key: model.{spec.name}.cache_folder)"
        ) from error


def _drop_quantisation(config_file: Path) -> None:
    settings = json.loads(config_file.read_text(encoding="utf-8"))
    settings.pop("quantization_config", None)
    config_file.write_text(json.dumps(settings, indent=2), encoding="utf-8")


def _quietly() -> None:
    """transformers' progress bars would write over ours; loading is announced in one line instead."""
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()


def _try(spec: ModelSpec, read: Any, what: str = "config") -> Any:
    """Run a transformers loader; whatever goes wrong becomes one `AssetError` that says what to do."""
    try:
        return read()
    except KVRelayError:
        raise
    except Exception as error:  # a dozen unrelated classes: damaged JSON, torn safetensors, a hub out of reach
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise AssetError(
            f"model {spec.name}: cannot read its {what} from {spec.source!r}: {reason}. {_advice(spec)}"
        ) from error


def _advice(spec: ModelSpec) -> str:
    """What to do about files that cannot be read, by where they lie: made here, given by the user, or on the hub."""
    kept = Path(_located(spec)[0])
    if kept.is_dir() and (spec.source.startswith(SEEDED) or kept == conversion_folder(spec)):
        return f"Delete {kept}: it is made again by itself (key: model.{spec.name}.cache_folder)"
    if kept.is_dir():
        return f"Its files are damaged or do not belong together: copy them again (key: model.{spec.name}.source)"
    return (
        f"Put the model in a local folder and set model.{spec.name}.source=FOLDER, or let this machine reach the hub "
        "(HF_HUB_OFFLINE unset)"
    )

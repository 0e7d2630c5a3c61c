"""What surrounds every command: what a user can mend becomes one clear line and an exit status, not a stack trace."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from kvrelay.core.errors import AssetError, ConfigError, KVRelayError

CONF = Path(__file__).resolve().parent.parent / "conf"
INTERRUPTED = 130
CLOSED_PIPE = 141
FULL_ERROR = "HYDRA_FULL_ERROR"
"""Hydra's own variable. Set by the user it asks for stack traces; set here it makes Hydra raise what it would print."""
ONE_LINE = "KVRELAY_ONE_LINE_ERRORS"
"""Says, to the jobs of a sweep too, that it was set here."""


def call(main: Callable[[], Any]) -> None:
    """Run a Hydra entry point: also what goes wrong before it begins (a misspelt key, Ctrl-C) is one line."""
    if FULL_ERROR not in os.environ:
        os.environ.update({FULL_ERROR: "1", ONE_LINE: "1"})
    with told():
        main()


@contextmanager
def told() -> Iterator[None]:
    """Exit with the error's own status; 130 when interrupted (SIGTERM, SIGUSR1 and SIGUSR2 are that too), 141 when a
    reader closed the pipe.

    Anything else is a fault of this software and keeps its stack trace, as all errors do with HYDRA_FULL_ERROR=1.
    """
    _prepare()
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        _leave_at_once_when_asked_again()
        why = f" ({stop})" if str(stop) else ""
        _leave(f"interrupted{why}; what is finished is kept, and the same command goes on from there", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLOSED_PIPE)
    except (KVRelayError, HydraException, OmegaConfBaseException, OSError) as error:
        if FULL_ERROR in os.environ and ONE_LINE not in os.environ:
            raise
        _leave(*_words(error))


def _prepare() -> None:
    with suppress(ValueError):  # a launcher may call from a thread, where signals are not to be had
        signal.signal(signal.SIGTERM, _interrupt)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, _after(signal.getsignal(number)))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # tables hold signs that not every terminal has
            stream.reconfigure(errors="backslashreplace")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _leave_at_once_when_asked_again() -> None:
    """From here on nothing is left to be kept, and an interrupt that hits the way out would be no status of ours.

    At the very end Python gives the signals back to the system, whose own way with them is to kill; ignored ones it
    leaves alone.
    """
    _on_interrupts(lambda *_: os._exit(INTERRUPTED))
    atexit.register(_on_interrupts, signal.SIG_IGN)


def _on_interrupts(handler: Any) -> None:
    with suppress(ValueError):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler)


def _after(handler: Any) -> Any:
    """A job launcher's own handler of a signal, which asks the scheduler to start the job again and exits.

    What it raises, where it may not or cannot, is an interruption: as an ordinary exception it could be taken, on its
    way out, for a failure of what it interrupts.
    """
    if not callable(handler) or handler is _interrupt:
        return _interrupt

    def obey(number: int, frame: Any) -> None:
        try:
            handler(number, frame)
        except Exception as error:
            raise KeyboardInterrupt(" ".join(str(error).split())) from error

    return obey


def _leave(words: str, status: int) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"\n{words}\n")
    sys.exit(status)


def _words(error: Exception) -> tuple[str, int]:
    if isinstance(error, KVRelayError):
        return f"{type(error).__name__}: {error}", error.exit_code
    if isinstance(error, HydraException | OmegaConfBaseException):  # before OSError, which some of Hydra's are too
        return f"{ConfigError.__name__}: {_config_words(error)}", ConfigError.exit_code
    return f"{type(error).__name__}: {error} ({FULL_ERROR}=1 shows where)", AssetError.exit_code


def _config_words(error: Exception) -> str:
    """Hydra's message in one line; an unknown choice of a group with the choices that there are."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        known = error.options or [path.stem for path in (CONF / group).glob("*.yaml")]
        return f"{group} = {name}: there is no such choice; wanted one of {', '.join(sorted(known))} (key: {group})"
    said = str(error).partition("\nConfig search path")[0]
    return f"{' '.join(said.split())} (--help lists the keys)"

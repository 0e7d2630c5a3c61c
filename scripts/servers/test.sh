#!/usr/bin/env bash
# Judges a run through a real server: exports the model, installs and starts the server, runs its tests, stops it.
#   scripts/servers/test.sh vllm|serve          what `make judge-vllm-test` and `make judge-serve-test` call
# Every step has a time limit; the server is stopped however this ends. PY is the project's Python, OUT its outputs.
set -euo pipefail
cd "$(dirname "$0")/../.."

KIND=${1:-}
case $KIND in vllm | serve) ;; *) echo "usage: $0 vllm|serve" >&2; exit 2 ;; esac
export PY=${PY:-.venv/bin/python} HF_HUB_OFFLINE=1
export PYTHON=${PYTHON:-$PY}
SERVER=scripts/servers/$KIND.sh
MODEL=${OUT:-outputs}/export/smollm2
NAME=smollm2-judge
RUN=.servers/$KIND/test-$$
PORT=$("$PY" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export KVRELAY_VLLM_RUN=$RUN KVRELAY_SERVE_RUN=$RUN KVRELAY_VLLM_PORT=$PORT KVRELAY_SERVE_PORT=$PORT
job=

# step WHAT SECONDS COMMAND…: in the background, so that an interrupt is acted on at once and reaches the command.
step() {
  local what=$1 limit=$2 began=$SECONDS status=0
  shift 2
  timeout --kill-after=20 "$limit" "$@" &
  job=$!
  wait "$job" || status=$?
  job=
  echo "$KIND: $what took $((SECONDS - began)) s" >&2
  [ "$status" -ne 124 ] || echo "$KIND: $what was stopped after its limit of $limit s" >&2
  return "$status"
}

leave() {
  local status=$?
  trap '' INT TERM
  if [ -n "$job" ]; then
    kill -TERM "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
  fi
  "$SERVER" stop || true
  if [ "$status" -eq 0 ]; then rm -rf "$RUN"; else echo "$KIND: the server's log is kept: $RUN/log" >&2; fi
  echo "$KIND: $SECONDS s in all" >&2
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step export 600 "$PY" scripts/export.py model=smollm2 "to='$MODEL'"
step install 1800 "$SERVER" install
if [ "$KIND" = vllm ]; then
  # any text: what is tested is that it is asked for, and that it is written nowhere
  VLLM_API_KEY=sk-$("$PY" -c 'import secrets; print(secrets.token_hex(16))')
  export VLLM_API_KEY KVRELAY_VLLM_URL=http://127.0.0.1:$PORT/v1 KVRELAY_VLLM_MODEL=$MODEL
  step start 660 "$SERVER" start "$MODEL" "$NAME"
else
  export KVRELAY_SERVE_URL=http://127.0.0.1:$PORT/v1 KVRELAY_SERVE_MODEL=$MODEL
  step start 660 "$SERVER" start "$MODEL"
fi
step tests 1500 "$PY" -m pytest -q -m "$KIND" tests/servers

#!/usr/bin/env bash
# `transformers serve`: a second OpenAI-compatible server, which ignores what would hold a reply to a form.
#   scripts/servers/serve.sh install                    three small packages beside the project's own: seconds, 4 MB
#   scripts/servers/serve.sh start MODEL_FOLDER         on loopback; the model's id is the folder as it is given here
#   scripts/servers/serve.sh stop
# KVRELAY_SERVE_FOLDER (.servers/serve) holds the packages, KVRELAY_SERVE_RUN (its run/) log and pid file;
# KVRELAY_SERVE_PORT (8198) is the port; PY (.venv/bin/python) is the project's environment, whose torch and
# transformers it runs on.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/servers/daemon.sh

NAME="transformers serve"
FOLDER=${KVRELAY_SERVE_FOLDER:-.servers/serve}
RUN=${KVRELAY_SERVE_RUN:-$FOLDER/run}
PORT=${KVRELAY_SERVE_PORT:-8198}
URL=http://127.0.0.1:$PORT
PY=${PY:-.venv/bin/python}
PINS=(fastapi==0.136.3 starlette==1.10.0 uvicorn==0.54.0)

# Without their dependencies: what these three stand on is in the project's environment already.
install() {
  [ "$(cat "$FOLDER/installed" 2>/dev/null)" = "${PINS[*]}" ] && return
  rm -rf "$FOLDER/packages"
  mkdir -p "$FOLDER"
  "$PY" -m pip install --quiet --no-deps --target "$FOLDER/packages" "${PINS[@]}"
  printf '%s' "${PINS[*]}" >"$FOLDER/installed"
}

start() {
  export HF_HUB_OFFLINE=1 CUDA_VISIBLE_DEVICES= PYTHONPATH="$FOLDER/packages"
  start_daemon "$PY" -c 'from transformers.cli.transformers import main; main()' \
    serve --host 127.0.0.1 --port "$PORT" --device cpu --dtype float32 "$@"
}

case "${1:-}" in
install) install ;;
start)
  [ $# -ge 2 ] || { say "usage: $0 start MODEL_FOLDER [OPTION]…"; exit 2; }
  shift
  install
  start "$@"
  ;;
stop) stop_daemon ;;
*) say "usage: $0 install | start MODEL_FOLDER [OPTION]… | stop"; exit 2 ;;
esac

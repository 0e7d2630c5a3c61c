# Sourced by start.sh and stop.sh: where the cluster lies, and which of its daemons live.
dir=${KVRELAY_SLURM_DIR:-${TMPDIR:-/tmp}/kvrelay-slurm}
port=${KVRELAY_SLURM_PORT:-16817}
conf=$dir/conf run=$dir/run log=$dir/log spool=$dir/spool
node=one
mark="# made by kvrelay scripts/slurm"
export SLURM_CONF=$conf/slurm.conf

say() { echo "slurm: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# pid_of DAEMON: its process id, if its pid file names a process of that name that is not merely waiting to be reaped
pid_of() {
  local pid
  pid=$(cat "$run/$1.pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] || return 1
  [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c 1)" != Z ] || return 1
  echo "$pid"
}
lives() { pid_of "$1" >/dev/null; }

# await SECONDS NAME COMMAND...: until the command succeeds; otherwise the ends of the logs, and out
await() {
  local end=$((SECONDS + $1)) name=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ]; then
      tail -n 5 "$log"/*.log >&2 2>/dev/null || true
      fail "$name does not answer"
    fi
    sleep 0.2
  done
}

#!/usr/bin/env bash
# Stop what start.sh started, by its own pid files, and remove its folder (KEEP=1 leaves it there to be looked at).
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/places.sh"

stop() {
  local pid i
  pid=$(pid_of "$1") || return 0
  kill -TERM "$pid" 2>/dev/null
  for i in $(seq 100); do
    lives "$1" || break
    sleep 0.1
  done
  if lives "$1"; then kill -KILL "$pid" 2>/dev/null; fi
  say "stopped $1 ($pid)"
}

[ -d "$dir" ] || exit 0
grep -qsF "$mark" "$conf/slurm.conf" || fail "$dir is not ours; nothing is stopped (KVRELAY_SLURM_DIR)"
if lives slurmctld; then # jobs first: their processes would outlive the daemons
  jobs=$(timeout 10 squeue -h -o %A | sort -u)
  [ -z "$jobs" ] || timeout 20 scancel $jobs
  for i in $(seq 100); do
    [ -n "$(timeout 5 squeue -h -o %A)" ] || break
    sleep 0.2
  done
fi
for daemon in slurmd slurmctld slurmdbd mariadbd munged; do stop $daemon; done
if grep -qsF "$mark" /etc/hosts; then
  rest=$(grep -vF "$mark" /etc/hosts)
  printf '%s\n' "$rest" >/etc/hosts
fi
[ -n "${KEEP:-}" ] || rm -rf "$dir"

# Sourced by the servers' scripts: one server a folder, started in the background, known by its own pid file. Linux.
# They set RUN (the folder of pid file and log), URL (without /v1) and NAME (for messages).

say() { printf '%s\n' "$*" >&2; }

# STAT: a process's stat line after its name (0 state, 3 session, 19 when it began). False where there is no process.
read_stat() {
  local line=
  { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || true
  STAT=(${line##*) }) # a name may hold spaces and brackets
  [ -n "$line" ]
}

# Ended processes that nobody has collected do not count.
lives() {
  read_stat "$1" || return 1
  case ${STAT[0]} in Z | X) return 1 ;; esac
}

# Whether anything lives that was started with the server.
session_lives() {
  local file
  for file in /proc/[0-9]*; do
    if lives "${file#/proc/}" && [ "${STAT[3]}" = "$1" ]; then return 0; fi
  done
  return 1
}

# PID: the number that was noted here; false where another process has been given it since. A dead server's number is
# not given out again while anything that it started lives.
noted_pid() {
  local born
  read -r PID born 2>/dev/null <"$RUN/pid" || return 1
  read_stat "$PID" || return 0
  [ "${STAT[19]}" = "$born" ]
}

answers() { curl -sf --noproxy '*' --max-time 5 -o /dev/null "$URL/health"; }

told_with_log() {
  say "--- the end of $RUN/log"
  tail -n 25 "$RUN/log" >&2
  say "$@"
}

# start_daemon COMMAND...: returns when the server answers; one that dies or stays silent is told with its log.
start_daemon() {
  local began=$SECONDS limit=${START_LIMIT_S:-600}
  mkdir -p "$RUN"
  if noted_pid && lives "$PID"; then
    say "$NAME runs already (process $PID); stop it first"
    return 1
  fi
  stop_daemon
  if answers; then
    say "another server answers at $URL; choose another port"
    return 1
  fi
  # a session of its own: what the server starts is ended with it, and nothing else is
  setsid "$@" >"$RUN/log" 2>&1 </dev/null &
  PID=$!
  read_stat "$PID" || true
  printf '%s %s\n' "$PID" "${STAT[19]:-gone}" >"$RUN/pid"
  until answers; do
    if ! lives "$PID"; then
      told_with_log "$NAME died while it started"
      stop_daemon
      return 1
    fi
    if [ $((SECONDS - began)) -ge "$limit" ]; then
      told_with_log "$NAME did not answer at $URL within $limit s (START_LIMIT_S)"
      stop_daemon
      return 1
    fi
    sleep 0.5
  done
  say "$NAME answers at $URL/v1 after $((SECONDS - began)) s (process $PID)"
}

# Ends the server and what it started: asks first, then makes it (STOP_LIMIT_S). Fine where none runs.
stop_daemon() {
  local began=$SECONDS
  if noted_pid && session_lives "$PID"; then
    kill -TERM -- "-$PID" 2>/dev/null || true
    while session_lives "$PID" && [ $((SECONDS - began)) -lt "${STOP_LIMIT_S:-15}" ]; do sleep 0.1; done
    kill -KILL -- "-$PID" 2>/dev/null || true
    while session_lives "$PID" && [ $((SECONDS - began)) -lt 60 ]; do sleep 0.1; done
    say "$NAME is stopped (process $PID)"
  fi
  rm -f "$RUN/pid"
}

# shellcheck shell=bash
# Number of compilers to run at once. Sourced, not run: tools/setup.sh and python/build_backend/build_inputs.py use it.
#
#   compile_jobs             prints the number for this machine, or for the control group (container) of this process
#   compile_jobs FOLDER      the same for a machine whose proc/ and sys/ are in FOLDER

# The folders with the limits of this process: those of its control group and of the groups around it. In version 2 of
# control groups a row of /proc/self/cgroup is 0::/path, in version 1 it is 4:memory:/path.
group_folders() {  # CONTROLLER ROOT
  local controllers path folder
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
      ,,) folder=$2/sys/fs/cgroup ;;
      *,"$1",*) folder=$2/sys/fs/cgroup/$1 ;;
      *) continue ;;
    esac
    while echo "$folder$path" && [ -n "$path" ]; do path=${path%/*}; done
  done < <(cat "$2/proc/self/cgroup" 2>/dev/null)
}

# Cores of each limit, rounded up. A file has "QUOTA PERIOD" in microseconds; the quota is max or -1 without a limit.
group_cores() {  # ROOT
  local folder
  while read -r folder; do
    cat "$folder/cpu.max" 2>/dev/null || paste -d ' ' "$folder"/cpu.cfs_{quota,period}_us 2>/dev/null || true
  done < <(group_folders cpu "$1") | awk '$1 ~ /^[0-9]+$/ {printf "%d\n", ($1 + $2 - 1) / $2}'
}

# Compilers that fit into the bytes of each limit, at 3 GiB each.
group_compilers() {  # ROOT
  local folder
  while read -r folder; do
    cat "$folder/memory.max" 2>/dev/null || cat "$folder/memory.limit_in_bytes" 2>/dev/null || true
  done < <(group_folders memory "$1") | awk '/^[0-9]+$/ {printf "%d\n", $1 / 3221225472}'
}

# One compiler for each core, but at most one for each 3 GiB of memory, because libtorch's headers are large.
compile_jobs() {  # [ROOT]
  local most
  most=$({
    nproc
    group_cores "${1:-}"
    awk '/^MemAvailable:/ {print int($2 / 3145728)}' "${1:-}/proc/meminfo"
    group_compilers "${1:-}"
  } | sort -n | sed -n 1p)
  echo $((most < 1 ? 1 : most))
}

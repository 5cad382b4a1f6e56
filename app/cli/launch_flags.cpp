#include "app/cli/launch_flags.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"

#include "app/cli/command/flags.h"
#include "app/config/options/option.h"
#include "app/launch/ranks/cores.h"

namespace zero::cli {
namespace {

constexpr int kDefaultPort = 29500;  // torchrun's port, for several machines, which must know it beforehand

// The flags as the user wrote them.
struct Flags {
  std::string nnodes = "1";
  std::string ranks = "1";
  std::string rdzv_backend, rdzv_endpoint, rdzv_id, rdzv_conf, master_address, backend, tee, shown;
  std::string monitor_interval, start_method;
  std::string role = "default";
  int node_rank = -1;
  int max_restarts = 0;
  int min_ranks = 0;
  std::optional<int> spared_from;
  int port = 0;
  int world = 0;
  bool standalone = false;
  bool no_bind = false;
  bool no_python = false;
  bool module = false;
};

// A flag of torchrun that `zero launch` refuses. `names` are those of CLI11.
struct RefusedFlag {
  const char* names;
  const char* variable;
  const char* reason;
  const char* remedy;
};
constexpr const char* kNoFiles = "zero launch writes no files of the ranks' output";
constexpr const char* kShell = "redirect the output of zero launch itself: zero launch ... >log 2>&1";
constexpr std::array kRefused{
    RefusedFlag{"--log-dir,--log_dir", "PET_LOG_DIR", kNoFiles, kShell},
    RefusedFlag{"-r,--redirects", "PET_REDIRECTS", kNoFiles, kShell},
    RefusedFlag{"--logs-specs,--logs_specs", "PET_LOGS_SPECS", kNoFiles, kShell},
    RefusedFlag{"--local-addr,--local_addr", "PET_LOCAL_ADDR", "the ranks find their own address",
                "leave it out; ZERO_COMM_INTERFACE names the network interface, such as eth0"},
    RefusedFlag{"--run-path,--run_path", "PET_RUN_PATH", "PROGRAM is run as it is", "leave it out"},
};

int to_int(const std::string& flag, const std::string& text, int lowest, int highest) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest) {
    throw ConfigError(flag, text, "out of range, or no number", fmt::format("allowed: {} to {}", lowest, highest));
  }
  return number;
}

void add_flags(CLI::App& app, Flags& flags) {
  const auto add = [&app](const std::string& name, auto& value, const std::string& help) {
    // torchrun accepts --node-rank, --node_rank, and PET_NODE_RANK from the environment.
    std::string underscored = name;
    std::string variable = "PET_";
    for (char& c : underscored) c = c == '-' ? '_' : c;
    for (const char c : underscored) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return app.add_option(underscored == name ? "--" + name : fmt::format("--{},--{}", name, underscored), value, help)
        ->envname(variable);
  };
  app.add_option("-n,--nproc-per-node,--nproc_per_node", flags.ranks,
                 "number of ranks on this machine; auto: a rank for each core")
      ->envname("PET_NPROC_PER_NODE");
  app.add_option("--world-size", flags.world, "number of ranks, if there is one machine");
  add("nnodes", flags.nnodes, "number of machines");
  add("node-rank", flags.node_rank, "number of this machine, from 0");
  add("master-addr", flags.master_address, "address of machine 0");
  add("master-port", flags.port, "port of machine 0; default: a free port, or 29500 for several machines");
  app.add_option("--port", flags.port, "the same as --master-port");
  app.add_flag("--standalone", flags.standalone, "one machine; the default")->envname("PET_STANDALONE");
  add("max-restarts", flags.max_restarts,
      "largest number of restarts after a failure; with --spared-from for all machines together");
  add("min-ranks", flags.min_ranks, "fewest ranks to continue with, without a rank that keeps failing");
  add("spared-from", flags.spared_from,
      "first of the ranks that may fail and restart by themselves: the first worker (sync.servers)");
  add("rdzv-id", flags.rdzv_id, "name of the run");
  add("rdzv-backend", flags.rdzv_backend, "c10d or static");
  add("rdzv-endpoint", flags.rdzv_endpoint, "HOST[:PORT] of machine 0; [ADDRESS]:PORT for IPv6");
  add("rdzv-conf", flags.rdzv_conf, "accepted only if empty");
  add("role", flags.role, "ROLE_NAME of the ranks");
  add("local-ranks-filter", flags.shown, "show only these ranks' output: 0,2");
  app.add_option("-t,--tee", flags.tee, "accepted, without effect: all output is shown and prefixed")
      ->envname("PET_TEE");
  add("monitor-interval", flags.monitor_interval, "accepted, without effect: the end of a rank is seen at once");
  add("start-method", flags.start_method, "accepted, without effect: each rank is a process of its own");
  for (const RefusedFlag& refused : kRefused)
    app.add_option_function<std::string>(refused.names,
                                         [refused](const std::string& value) {
                                           const std::string_view names = refused.names;
                                           const std::string_view name = names.substr(names.find("--"));
                                           throw ConfigError(name.substr(0, name.find(',')), value, refused.reason,
                                                             refused.remedy);
                                         })
        ->envname(refused.variable)
        ->group("");
  app.add_option("--backend", flags.backend, "transport of the ranks: sets ZERO_COMM_TRANSPORT");
  app.add_flag("--no-bind", flags.no_bind, "do not bind ranks to cores");
  app.add_flag("--no-python,--no_python", flags.no_python, "run a .py script as it is")->envname("PET_NO_PYTHON");
  app.add_flag("-m,--module", flags.module, "PROGRAM is a Python module")->envname("PET_MODULE");
}

int machines(const Flags& flags) {
  const auto colon = flags.nnodes.find(':');
  if (colon != std::string::npos && flags.nnodes.substr(0, colon) != flags.nnodes.substr(colon + 1)) {
    throw ConfigError(
        "--nnodes", flags.nnodes, "a world that changes its size is not supported",
        "give one number; --max-restarts starts again after a failure, on one machine with --min-ranks fewer");
  }
  return to_int("--nnodes", flags.nnodes.substr(0, colon), 1, 1 << 20);
}

int local_ranks(const Flags& flags, const CLI::App& app, int nodes) {
  const bool from_flag = app.count("--nproc-per-node") > 0;
  if (flags.world != 0 || app.count("--world-size") > 0) {
    if (nodes > 1 || (from_flag && flags.ranks != std::to_string(flags.world))) {
      throw ConfigError("--world-size", std::to_string(flags.world), "contradicts --nnodes and --nproc-per-node",
                        "give only those two");
    }
    return to_int("--world-size", std::to_string(flags.world), 1, kMostLocalRanks);
  }
  if (flags.ranks == "auto" || flags.ranks == "cpu") return static_cast<int>(allowed_cores().size());
  if (flags.ranks == "gpu") {
    throw ConfigError("--nproc-per-node", flags.ranks, "zero launch does not count GPUs",
                      "give their number, such as 4; or cpu for one rank a core");
  }
  return to_int("--nproc-per-node", flags.ranks, 1, kMostLocalRanks);
}

// Returns host and port of "HOST", "HOST:PORT", "[ADDRESS]:PORT" or an IPv6 address. nullopt: it has no port.
std::pair<std::string, std::optional<std::string>> split_endpoint(const std::string& endpoint) {
  const bool in_brackets = endpoint.starts_with('[');
  const std::size_t bracket = endpoint.find(']');
  if (in_brackets && (bracket == std::string::npos || (bracket + 1 < endpoint.size() && endpoint[bracket + 1] != ':')))
    throw ConfigError("--rdzv-endpoint", endpoint, "no address and port", "write [ADDRESS]:PORT, such as [::1]:29500");
  const std::size_t colon = endpoint.find(':', in_brackets ? bracket : 0);
  const bool is_ipv6 = !in_brackets && colon != endpoint.rfind(':');
  std::optional<std::string> port;
  if (colon != std::string::npos && !is_ipv6) port = endpoint.substr(colon + 1);
  if (in_brackets) return {endpoint.substr(1, bracket - 1), port};
  return {is_ipv6 ? endpoint : endpoint.substr(0, colon), port};
}

// Finds the address and the port of machine 0, from --master-addr and --master-port, or from --rdzv-endpoint.
void find_master(const Flags& flags, LaunchOptions& options) {
  std::string address = flags.master_address;
  options.master_port = flags.port == 0 ? 0 : to_int("--master-port", std::to_string(flags.port), 1, 65535);
  if (!flags.rdzv_endpoint.empty() && !flags.standalone) {
    const auto [host, port] = split_endpoint(flags.rdzv_endpoint);
    if (address.empty()) address = host;
    if (options.master_port == 0 && port) options.master_port = to_int("--rdzv-endpoint", *port, 0, 65535);
  }
  if (!address.empty()) options.master_address = address;
  if (options.nodes == 1) return;
  if (address.empty()) {
    throw ConfigError("--master-addr", "", "with several machines the ranks must know the address of machine 0",
                      "give --master-addr HOST (or --rdzv-endpoint HOST:PORT) on every machine");
  }
  if (flags.node_rank < 0) {
    throw ConfigError("--node-rank", "", "with several machines each must know its number",
                      fmt::format("give --node-rank 0 to {}, another on each machine", options.nodes - 1));
  }
  if (options.master_port == 0) options.master_port = kDefaultPort;
}

void check_rendezvous(const Flags& flags) {
  if (!flags.rdzv_backend.empty() && flags.rdzv_backend != "c10d" && flags.rdzv_backend != "static") {
    throw ConfigError("--rdzv-backend", flags.rdzv_backend, "not supported",
                      "use static with --node-rank and --master-addr");
  }
  if (!flags.rdzv_conf.empty()) throw ConfigError("--rdzv-conf", flags.rdzv_conf, "not supported", "leave it out");
  if (flags.max_restarts < 0)
    throw ConfigError("--max-restarts", std::to_string(flags.max_restarts), "out of range", "allowed: 0 or more");
}

// Checks the name as comm.transport does, here once instead of in every rank.
void check_backend(const Flags& flags) {
  if (flags.backend.empty()) return;
  const Option& transport = *find_option("comm.transport");
  Config scratch;
  set_option(scratch, transport, {"comm.transport", parse_value(flags.backend), flags.backend, "--backend", true});
}

void check_min_ranks(const Flags& flags, const LaunchOptions& options) {
  if (flags.min_ranks == 0) return;
  const std::string text = std::to_string(flags.min_ranks);
  if (options.nodes > 1) {
    throw ConfigError("--min-ranks", text, "the world of several machines does not change its size",
                      "use it on one machine, or leave it out");
  }
  to_int("--min-ranks", text, 0, options.ranks);
  if (flags.max_restarts == 0) {
    throw ConfigError("--min-ranks", text, "it matters only after a restart, and --max-restarts is 0",
                      "give --max-restarts N");
  }
}

void check_spared_from(const Flags& flags, const LaunchOptions& options) {
  if (!flags.spared_from) return;
  const std::string text = std::to_string(*flags.spared_from);
  const auto refuse = [&](const std::string& reason, const std::string& remedy) {
    throw ConfigError("--spared-from", text, reason, remedy);
  };
  const int world = options.nodes * options.ranks;
  if (world == 1) refuse("there is only one rank", "leave it out");
  if (flags.min_ranks > 0)
    refuse("--min-ranks leaves a failed rank out, and --spared-from restarts only that rank", "give one of the two");
  to_int("--spared-from", text, 1, world - 1);
}

std::vector<int> filter(const Flags& flags, int ranks) {
  std::vector<int> shown;
  for (std::size_t at = 0; at < flags.shown.size();) {
    const std::size_t comma = std::min(flags.shown.find(',', at), flags.shown.size());
    shown.push_back(to_int("--local-ranks-filter", flags.shown.substr(at, comma - at), 0, ranks - 1));
    at = comma + 1;
  }
  return shown;
}

std::vector<std::string> program(const Flags& flags, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty()) {
    throw ConfigError("PROGRAM", "", "none is given",
                      "zero launch --nproc-per-node 2 -- PROGRAM [arguments]; `zero launch --help`");
  }
  const bool script = words.front().ends_with(".py") && !flags.no_python;
  if (!script && !flags.module) return words;
  const char* python = std::getenv("PYTHON_EXEC");
  std::vector<std::string> out{python != nullptr ? python : "python3", "-u"};
  if (flags.module) out.emplace_back("-m");
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

}  // namespace

std::optional<LaunchOptions> parse_launch(Arguments arguments) {
  CLI::App app("Starts the ranks of a program with torchrun's environment. When one rank fails, it ends all ranks.",
               "zero launch");
  app.footer(
      "Each torchrun flag is also read from PET_<FLAG> (PET_NPROC_PER_NODE), and may be spelt with _ (--node_rank).\n"
      "python3 runs a .py script. Exit status: 0 done; 2 or 4 if the first failed rank ended with it; 3 after\n"
      "any other failure of a rank; 128 + n ended by signal n.");
  app.prefix_command();
  Flags flags;
  add_flags(app, flags);
  if (!parse_flags(app, arguments)) return std::nullopt;

  check_rendezvous(flags);
  LaunchOptions options;
  options.nodes = flags.standalone ? 1 : machines(flags);
  options.ranks = local_ranks(flags, app, options.nodes);
  find_master(flags, options);
  if (options.nodes > 1)
    options.node_rank = to_int("--node-rank", std::to_string(flags.node_rank), 0, options.nodes - 1);
  options.run_name = flags.rdzv_id;
  options.role = flags.role;
  options.max_restarts = flags.max_restarts;
  check_min_ranks(flags, options);
  options.min_ranks = flags.min_ranks;
  check_spared_from(flags, options);
  options.spared_from = flags.spared_from.value_or(-1);
  options.bind_cores = !flags.no_bind;
  options.shown_ranks = filter(flags, options.ranks);
  check_backend(flags);
  if (!flags.backend.empty()) options.variables.emplace_back("ZERO_COMM_TRANSPORT", flags.backend);
  options.program = program(flags, app.remaining());
  return options;
}

}  // namespace zero::cli

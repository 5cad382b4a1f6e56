#include "zero/comm/rendezvous/detect_ranks.h"

#include <charconv>
#include <climits>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"

namespace zero {
namespace {

// The environment, with strict numbers. An empty variable counts as not set.
class Variables {
 public:
  explicit Variables(const GetEnvironment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  std::optional<int> number(const char* name, int low, int high) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error != std::errc() || end != value->data() + value->size()) {
      throw ConfigError(name, *value, "is not a whole number", "unset it, or let the launcher set it");
    }
    if (number < low || number > high) {
      throw ConfigError(name, *value, fmt::format("must be between {} and {}", low, high),
                        "unset it, or let the launcher set it");
    }
    return number;
  }

  int required(const char* name, int low, int high, const char* because) const {
    if (const auto value = number(name, low, high)) return *value;
    throw ConfigError(name, "", fmt::format("is not set, but {} is", because),
                      fmt::format("set {}, or unset {}", name, because));
  }

 private:
  const GetEnvironment& environment_;
};

// Names of the variables in which a launcher gives rank, world, local rank and local world.
struct Names {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};
constexpr int kMostReplacements = 30000;

constexpr Names kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kMvapich{"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                         "MV2_COMM_WORLD_LOCAL_SIZE"};

// Assumes that all ranks are on this machine, unless the launcher says otherwise.
void read_ranks(const Variables& variables, const Names& names, RankEnvironment& ranks) {
  ranks.world = variables.required(names.world, 1, INT_MAX, names.rank);
  ranks.rank = variables.required(names.rank, 0, ranks.world - 1, names.world);
  ranks.local_world = variables.number(names.local_world, 1, ranks.world).value_or(ranks.world);
  ranks.local_rank = variables.number(names.local_rank, 0, ranks.local_world - 1)
                         .value_or(ranks.local_world == ranks.world ? ranks.rank : 0);
}

// torchrun's processes on a machine share address and port, and no other run there has that port at the same time. Its
// own run name distinguishes nothing ("none", unless --rdzv-id or --standalone gives one). The restart count keeps a
// rank that outlived its round from meeting the next one.
std::string torchrun_id(const Variables& variables, const RankEnvironment& ranks) {
  return fmt::format("{}-{}-{}-{}", variables.text("TORCHELASTIC_RUN_ID").value_or("torchrun"), ranks.master_addr,
                     ranks.master_port, variables.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
}

// Ranks that one daemon started on this machine have the daemon as their parent.
std::string parent_id(std::string_view launcher) {
  return fmt::format("{}-parent-{}", launcher, getppid());
}

void read_slurm(const Variables& variables, RankEnvironment& ranks) {
  const char* world = variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS"
                      : variables.has("SLURM_NTASKS")       ? "SLURM_NTASKS"
                                                            : "SLURM_NPROCS";
  read_ranks(variables, {"SLURM_PROCID", world, "SLURM_LOCALID", ""}, ranks);
  const int node = variables.number("SLURM_NODEID", 0, INT_MAX).value_or(0);
  const int num_nodes = variables.number("SLURM_STEP_NUM_NODES", 1, INT_MAX)
                            .value_or(variables.number("SLURM_NNODES", 1, INT_MAX).value_or(1));
  if (const auto tasks = variables.text("SLURM_STEP_TASKS_PER_NODE")) {
    ranks.local_world = slurm_tasks_on_node(*tasks, node);
  } else if (num_nodes > 1) {
    throw ConfigError("SLURM_STEP_TASKS_PER_NODE", "", "is not set, but the step has several nodes",
                      "start the ranks with srun");
  }
  ranks.local_rank = variables.number("SLURM_LOCALID", 0, ranks.local_world - 1).value_or(ranks.rank);
  const int job = variables.number("SLURM_JOB_ID", 0, INT_MAX).value_or(0);
  if (num_nodes > 1) {
    const auto hosts = variables.text("SLURM_STEP_NODELIST");
    if (!hosts)
      throw ConfigError("SLURM_STEP_NODELIST", "", "is not set, but the step has several nodes", "pass --master-addr");
    ranks.master_addr = slurm_first_host(*hosts);
  }
  ranks.master_port = 20000 + job % 20000;  // the same on every node, another for the next job
  ranks.run_id = variables.has("SLURM_JOB_ID")
                     ? fmt::format("slurm-{}-{}", job, variables.text("SLURM_STEP_ID").value_or("0"))
                     : parent_id("slurm");
}

// In a batch script outside srun, these variables describe the script, which is one process.
bool in_slurm_step(const Variables& variables) {
  if (!variables.has("SLURM_PROCID")) return false;
  return variables.has("SLURM_STEP_ID") || variables.text("ENVIRONMENT") != "BATCH";
}

int ranks_per_node(const Variables& variables) {
  const auto text = variables.text("PET_NPROC_PER_NODE");
  if (!text) return 1;
  if (*text == "auto" || *text == "cpu") return num_usable_cores();
  return *variables.number("PET_NPROC_PER_NODE", 1, INT_MAX);
}

// PET_NNODES may be a range, MIN:MAX, for elastic runs; a run of zero.cpp has one size.
int num_nodes(const Variables& variables) {
  const auto text = variables.text("PET_NNODES");
  if (!text) return 1;
  const std::string_view range = *text;
  const std::size_t colon = range.find(':');
  const std::string low(range.substr(0, colon));
  if (colon != std::string_view::npos && range.substr(colon + 1) != low) {
    throw ConfigError("PET_NNODES", range, "asks for an elastic run", "give one number of nodes");
  }
  const GetEnvironment only_this = [&](const char*) { return low.c_str(); };
  return *Variables(only_this).number("PET_NNODES", 1, INT_MAX);
}

void read_nodes(const Variables& variables, RankEnvironment& ranks) {
  ranks.local_world = ranks_per_node(variables);
  ranks.per_node = ranks.local_world > 1;
  int node = 0;
  if (variables.has("RANK")) {
    ranks.world = variables.required("WORLD_SIZE", 1, INT_MAX, "RANK");
    if (ranks.world % ranks.local_world != 0) {
      throw ConfigError("WORLD_SIZE", std::to_string(ranks.world),
                        fmt::format("is not a multiple of PET_NPROC_PER_NODE = {}", ranks.local_world),
                        "WORLD_SIZE counts processes: nodes x processes per node");
    }
    node = variables.required("RANK", 0, ranks.world / ranks.local_world - 1, "WORLD_SIZE");
  } else {
    const int nodes = num_nodes(variables);
    if (nodes > INT_MAX / ranks.local_world) {
      throw ConfigError("PET_NNODES", std::to_string(nodes), "is too large", "give the number of nodes");
    }
    ranks.world = nodes * ranks.local_world;
    node = nodes == 1 ? variables.number("PET_NODE_RANK", 0, 0).value_or(0)
                      : variables.required("PET_NODE_RANK", 0, nodes - 1, "PET_NNODES");
  }
  ranks.rank = node * ranks.local_world;
}

void read_flags(const RankFlags& flags, RankEnvironment& ranks) {
  if (!flags.world || !flags.rank) {
    throw ConfigError(flags.rank ? "world" : "rank", "", "is missing",
                      "give both the rank and the world size (--rank, --world-size), or neither");
  }
  const auto check = [](std::string_view name, int value, int low, int high) {
    if (value >= low && value <= high) return value;
    throw ConfigError(name, std::to_string(value), fmt::format("must be between {} and {}", low, high),
                      "ranks count from 0 to world - 1");
  };
  ranks.world = check("world", *flags.world, 1, INT_MAX);
  ranks.rank = check("rank", *flags.rank, 0, ranks.world - 1);
  ranks.local_world = check("local world", flags.local_world.value_or(ranks.world), 1, ranks.world);
  const int guess = ranks.local_world == ranks.world ? ranks.rank : ranks.rank % ranks.local_world;
  ranks.local_rank = check("local rank", flags.local_rank.value_or(guess), 0, ranks.local_world - 1);
}

// If the rank is missing, each process would train a whole run as its only rank.
void refuse_size_without_rank(const Variables& variables) {
  for (const Names& names : {kTorchrun, kOpenMpi, kPmi, kMvapich})
    if (variables.number(names.world, 1, INT_MAX).value_or(1) > 1)
      static_cast<void>(variables.required(names.rank, 0, INT_MAX, names.world));
}

// Takes the digits from the front of `text`; returns -1 if there are none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(end - text.data());
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

RankEnvironment detect_ranks(const RankFlags& flags, const GetEnvironment& environment) {
  const Variables variables(environment);
  RankEnvironment ranks;
  // MASTER_ADDR and MASTER_PORT count whatever the launcher, because somebody has set them on purpose.
  ranks.master_addr =
      variables.text("MASTER_ADDR").value_or(variables.text("PET_MASTER_ADDR").value_or(ranks.master_addr));
  const char* port = variables.has("MASTER_PORT") ? "MASTER_PORT" : "PET_MASTER_PORT";
  ranks.master_port = variables.number(port, 1, 65535).value_or(ranks.master_port);

  if (flags.rank || flags.world) {
    ranks.source = "flags";
    read_flags(flags, ranks);
    ranks.run_id = fmt::format("flags-{}-{}", ranks.master_addr, ranks.master_port);
  } else if (variables.has("RANK") && variables.has("LOCAL_RANK")) {
    ranks.source = variables.has("ZERO_RUN_ID")           ? "zero launch"
                   : variables.has("TORCHELASTIC_RUN_ID") ? "torchrun"
                                                          : "RANK and LOCAL_RANK";
    read_ranks(variables, kTorchrun, ranks);
    ranks.run_id = torchrun_id(variables, ranks);
    if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
      ranks.agent_run = variables.text("TORCHELASTIC_RUN_ID").value_or("none");
    }
  } else if (variables.has(kOpenMpi.rank)) {
    ranks.source = "Open MPI";
    read_ranks(variables, kOpenMpi, ranks);
    const auto job = variables.text("PMIX_NAMESPACE");
    const auto older = variables.text("OMPI_MCA_ess_base_jobid");
    ranks.run_id = job || older ? fmt::format("mpi-{}", job ? *job : *older) : parent_id("mpi");
  } else if (variables.has(kPmi.rank) || variables.has(kMvapich.rank)) {
    ranks.source = "PMI";
    read_ranks(variables, variables.has(kPmi.rank) ? kPmi : kMvapich, ranks);
    ranks.run_id = parent_id("pmi");
  } else if (in_slurm_step(variables)) {
    ranks.source = "Slurm";
    const RankEnvironment before = ranks;
    read_slurm(variables, ranks);
    if (variables.has("MASTER_ADDR")) ranks.master_addr = before.master_addr;
    if (variables.has("MASTER_PORT")) ranks.master_port = before.master_port;
  } else if (variables.has("PMIX_RANK")) {
    throw ConfigError("PMIX_RANK", *variables.text("PMIX_RANK"), "does not say how many ranks there are",
                      "start the ranks with mpirun or srun, or pass the rank and the world size");
  } else if (variables.has("RANK") || variables.has("PET_NNODES") || variables.has("PET_NPROC_PER_NODE")) {
    ranks.source = variables.has("RANK") ? "RANK without LOCAL_RANK (a node)" : "PET_*";
    read_nodes(variables, ranks);
    ranks.run_id = fmt::format("node-{}-{}", ranks.master_addr, ranks.master_port);
  } else {
    refuse_size_without_rank(variables);
  }

  if (flags.master_addr || flags.master_port) ranks.agent_run.reset();  // the store is elsewhere
  if (flags.master_addr) ranks.master_addr = *flags.master_addr;
  if (flags.master_port) ranks.master_port = *flags.master_port;
  if (const auto run = variables.text("ZERO_RUN_ID")) ranks.run_id = *run;
  ranks.generation = variables.number("ZERO_GENERATION", 0, INT_MAX).value_or(0);
  ranks.replacement = variables.number("ZERO_REPLACEMENT", 0, kMostReplacements).value_or(0);
  ranks.most_replacements = variables.number("ZERO_MAX_REPLACEMENTS", 0, kMostReplacements).value_or(0);
  if (flags.run_id) ranks.run_id = *flags.run_id;
  return ranks;
}

std::string describe(const RankEnvironment& ranks) {
  return fmt::format("rank {} of {} (local {} of {}), from {}", ranks.rank, ranks.world, ranks.local_rank,
                     ranks.local_world, ranks.source);
}

int slurm_tasks_on_node(std::string_view list, int node, std::string_view key) {
  std::string_view rest = list;
  for (int first = 0; !rest.empty();) {
    const int tasks = take_number(rest);
    int repeat = 1;
    const bool repeated = take(rest, "(x");
    if (repeated) repeat = take_number(rest);
    if (tasks < 1 || repeat < 1 || (repeated && !take(rest, ")")) || (!rest.empty() && !take(rest, ","))) break;
    if (node < first + repeat) return tasks;
    first += repeat;
    if (rest.empty()) {
      throw ConfigError(key, list, "does not reach node " + std::to_string(node), "start the ranks with srun");
    }
  }
  throw ConfigError(key, list, "is not a list like 2(x3),1", "start the ranks with srun");
}

std::string slurm_first_host(std::string_view list, std::string_view key) {
  const std::size_t end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end != std::string_view::npos && list[end] == '[') {
    const std::size_t number_end = list.find_first_of(",-]", end);
    const std::size_t close = list.find(']', end);
    if (close == std::string_view::npos || number_end == end + 1) {
      throw ConfigError(key, list, "is not a list like n[001-004,7]", "pass --master-addr");
    }
    host += list.substr(end + 1, number_end - end - 1);
    // The text after the bracket, as in rack[1-2]-node, up to the next host.
    const std::size_t tail_end = list.find_first_of(",[", close);
    host += list.substr(close + 1, tail_end == std::string_view::npos ? tail_end : tail_end - close - 1);
    if (tail_end != std::string_view::npos && list[tail_end] == '[') {
      throw ConfigError(key, list, "has two ranges in one name", "pass --master-addr");
    }
  }
  if (host.empty()) throw ConfigError(key, list, "names no host", "pass --master-addr");
  return host;
}

}  // namespace zero

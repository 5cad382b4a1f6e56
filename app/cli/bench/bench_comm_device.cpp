// `zero bench comm --device NAME`: the gather and the sum of one unit on a device, between ranks of this machine. They
// work as in a run on that device: through pinned memory over a transport of the host, or from GPU to GPU over NCCL. It
// also measures the copies that the way through the host needs, in all ranks at the same time, without communication.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/text/bytes.h"
#include "zero/comm/transport/open_transport.h"
#include "zero/device/open_device.h"

#include "app/cli/bench/comm_bench.h"
#include "app/cli/bench/parts/unit_collectives.h"

namespace zero::cli {
namespace {

struct UnitRow {
  std::int64_t bytes = 0;
  TimedByAll gather, gather_copies, sum, sum_copies;
};

struct UnitSeries {
  std::string transport, way;
  std::vector<UnitRow> rows;
};

UnitRow measure_unit(Communicator& comm, Device& device, std::int64_t bytes, bool linked, int rounds) {
  UnitCollectives unit(comm, device, bytes, linked);
  UnitRow row{.bytes = bytes};
  const int count = repeats_of(bytes);
  unit.gather();  // not counted: the first gather and sum allocate memory
  unit.sum();
  for (int round = 0; round < rounds; ++round) {
    row.gather_copies.time(comm, count, [&] { unit.gather_copies(); });
    row.gather.time(comm, count, [&] { unit.gather(); });
    row.sum_copies.time(comm, count, [&] { unit.sum_copies(); });
    row.sum.time(comm, count, [&] { unit.sum(); });
  }
  return row;
}

nlohmann::ordered_json json_of(const Measurement& collective, const Measurement& copies) {
  return {{"best_s", collective.best()},
          {"median_s", collective.median()},
          {"copies_best_s", copies.best()},
          {"copies_median_s", copies.median()},
          {"ratio_best", copies.best() / collective.best()},
          {"ratio_median", copies.median() / collective.median()}};
}

void print_units_json(std::span<const UnitSeries> all, const CommBenchOptions& options, const Device& device) {
  nlohmann::ordered_json out{
      {"bench", "comm"}, {"device", device.name()}, {"world", options.ranks}, {"rounds", options.rounds}};
  for (const UnitSeries& series : all) {
    auto sizes = nlohmann::ordered_json::array();
    for (const UnitRow& row : series.rows)
      sizes.push_back({{"bytes", row.bytes},
                       {"gather", json_of(row.gather.seconds, row.gather_copies.seconds)},
                       {"sum", json_of(row.sum.seconds, row.sum_copies.seconds)}});
    out["transports"].push_back({{"transport", series.transport}, {"way", series.way}, {"sizes", sizes}});
  }
  fmt::print("{}\n", out.dump(2));
}

void print_units_table(std::span<const UnitSeries> all, const CommBenchOptions& options, const Device& device) {
  fmt::print("gather and sum of a unit on {}, {}, {}; copies: its bytes down to pinned memory and up again\n",
             device.name(), format_count(options.ranks, "rank"), format_count(options.rounds, "round"));
  fmt::print("  {:<14}{:<18}{:>10}{:<8}{:>13}{:>13}{:>13}{:>9}\n", "transport", "way", "size", "", "best", "median",
             "copies", "ratio");
  for (const UnitSeries& series : all) {
    for (const UnitRow& row : series.rows) {
      const auto line = [&](std::string_view name, const Measurement& collective, const Measurement& copies) {
        fmt::print("  {:<14}{:<18}{:>10} {:<7}{:>10.3f} ms{:>10.3f} ms{:>10.3f} ms{:>9.3f}\n", series.transport,
                   series.way, format_bytes(row.bytes), name, 1e3 * collective.best(), 1e3 * collective.median(),
                   1e3 * copies.median(), copies.median() / collective.median());
      };
      line("gather", row.gather.seconds, row.gather_copies.seconds);
      line("sum", row.sum.seconds, row.sum_copies.seconds);
    }
  }
}

}  // namespace

int bench_comm_rank_on_device(CommBenchOptions options, const RankEnvironment& environment) {
  const std::unique_ptr<Device> device =
      open_device(device_of_rank(options.device, environment.local_rank, find_gpus(/*memory=*/false)));
  options.ranks = environment.world;
  std::vector<UnitSeries> all;
  int rank = 0;
  for (const std::string& transport : options.transports) {
    const bool linked = transport == "nccl";
    const auto comm = open_transport(linked ? "auto" : transport, environment, std::chrono::seconds(60));
    rank = comm->rank();
    UnitSeries series{.transport = transport == "auto" ? std::string(comm->transport()) : transport};
    for (const std::int64_t size : kCommBenchSizes) {
      if (size > options.mib << 20) continue;
      const std::int64_t whole = size / (64 * options.ranks) * 64 * options.ranks;
      series.rows.push_back(measure_unit(*comm, *device, whole, linked, options.rounds));
    }
    series.way = linked ? "nccl" : device->host_readable() ? "in place" : "through the host";
    all.push_back(std::move(series));
  }
  if (rank == 0) options.json ? print_units_json(all, options, *device) : print_units_table(all, options, *device);
  return 0;
}

}  // namespace zero::cli

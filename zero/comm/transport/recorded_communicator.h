// RecordedCommunicator: any communicator, with its collectives recorded in a flight ring.
//
//   RecordedCommunicator comm(open_transport(...), map_private(FlightRing::bytes(kFlightCapacity)), identity);
//   comm.write_on_failure("runs/x/flight");
//   comm.barrier({}).wait();        // throws what the transport throws, after it has written rank-00000.json
//
// Bytes, counts and errors are those of the inner communicator. An entry of the record begins with the call and ends
// with its wait(). The first CommError writes the record at once, because unwinding may take longer than a launcher
// allows. If that fails, it is logged, and the CommError is passed on.
//
// In a process that was forked from this rank, all operations throw ConfigError, and no record is written.
//
// A group (group.h) writes into the same ring: the record names the group and its ranks, and numbers its collectives
// separately. Groups beyond the 31st of a rank are not recorded, but their errors are.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "zero/base/error/error.h"
#include "zero/base/process/fork_mark.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/communicator.h"
#include "zero/comm/flight/ring.h"
#include "zero/comm/group.h"

namespace zero {

class RecordedCommunicator final : public Communicator, private GroupOpener, private Arrivals {
 public:
  // `memory`: as FlightRing requires. It may be memory that the launcher also reads.
  RecordedCommunicator(std::unique_ptr<Communicator> inner, Allocation memory, const FlightIdentity& identity);

  ~RecordedCommunicator() override;

  // Local. Sets the folder in which this rank writes its file on a failure; empty: it writes none.
  void write_on_failure(std::filesystem::path folder) { folder_ = std::move(folder); }
  // Local. Leaves it to the launcher to say where the files are.
  void leave_report_to_launcher() { prints_ = false; }
  // Local. Writes the file now, unless there is no folder or the file has been written. Never throws.
  void write(const FlightCause& cause) noexcept;
  // Local. Returns the ring's bytes, for read_ring() and write_flight().
  std::span<const std::byte> memory() const { return run_.ring_->memory(); }

  int rank() const override { return inner_->rank(); }
  int world() const override { return inner_->world(); }
  std::string_view transport() const override { return inner_->transport(); }

  Work all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) override;
  Work broadcast(std::span<std::byte> data, int root, CommTag tag) override;
  Work send(std::span<const std::byte> data, int to, CommTag tag) override;
  Work receive(std::span<std::byte> data, int from, CommTag tag) override;
  Work barrier(CommTag tag) override;
  // Records one entry, however many exchanges the transport makes of it.
  Work reduce_scatter(const ReduceScatter& request, CommTag tag) override;

  Allocation allocate(std::size_t bytes, Written written) override { return inner_->allocate(bytes, written); }
  void drain() override;
  void note_step(std::int64_t steps) override { run_.ring_->note_step(steps); }
  GroupOpener* groups() override { return inner_->groups() == nullptr ? nullptr : this; }
  Arrivals* arrivals() override { return inner_->arrivals() == nullptr ? nullptr : this; }
  Mailbox* mailbox() override { return inner_->mailbox(); }

  Traffic traffic() const override { return inner_->traffic(); }
  double waited_seconds() const override { return inner_->waited_seconds(); }
  std::chrono::milliseconds timeout() const override { return inner_->timeout(); }

 private:
  class RecordedWait;

  // Constructs a group. `number`: its number in the ring; -1: the ring has no room for it.
  RecordedCommunicator(RecordedCommunicator& run, std::unique_ptr<Communicator> inner, int number);

  std::uint64_t newest_group() const override { return inner_->groups()->newest_group(); }
  int world_rank(int rank) const override {
    GroupOpener* const inner = inner_->groups();
    const bool one_of_them = inner != nullptr && rank >= 0 && rank < world();
    return one_of_them ? inner->world_rank(rank) : rank;  // the inner communicator rejects any other rank
  }
  std::unique_ptr<Communicator> open(const GroupPlace& place) override;
  bool await(const std::function<bool()>& ready, std::chrono::milliseconds limit) override;
  void may_be_lost() override { inner_->arrivals()->may_be_lost(); }
  bool lost(int rank) const override { return inner_->arrivals()->lost(rank); }
  int unread(int rank) override { return inner_->arrivals()->unread(rank); }
  std::string known_state(int rank) const override { return inner_->arrivals()->known_state(rank); }
  bool is_stopped(int rank) const override { return inner_->arrivals()->is_stopped(rank); }
  void fail_everywhere(int rank, const std::string& operation, const std::string& reason) override;
  Replacements* replacements() override { return inner_->arrivals()->replacements(); }

  template <class Begin>
  Work record(const FlightCall& call, Begin begin);
  // Runs a part of entry `number` (0: of no entry). Marks the entry if it throws, writes the record, and rethrows.
  template <class Part>
  auto watch(std::uint64_t number, Part part);
  void end(std::uint64_t number, bool failed = false);
  void met(const CommError& error, double began);

  RecordedCommunicator& run_;  // that of the world; its ring and folder serve all groups
  int group_ = 0;              // the group's number in the ring
  Allocation memory_;
  bool prints_ = true;
  std::optional<FlightRing> ring_;
  std::filesystem::path folder_;
  bool written_ = false;
  ForkMark made_here_;
  std::unique_ptr<Communicator> inner_;  // destroyed before the other members
};

}  // namespace zero

#include "zero/comm/code/coded_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/comm/code/block_code.h"
#include "zero/comm/rank_sum.h"

namespace zero {
namespace {

// Approximate bytes of a slot. A tile has whole blocks of statistics of a rank's block.
constexpr std::int64_t kSlotBytes = std::int64_t{2} << 20;

std::int64_t tile_of(int world, std::int64_t largest_numel) {
  const std::int64_t fitting = kSlotBytes / (2 * world) / kStatsBlock,
                     needed = (largest_numel + kStatsBlock - 1) / kStatsBlock;
  return std::max<std::int64_t>(std::min(fitting, needed), 1) * kStatsBlock;
}

// Returns the most bytes that a rank's part of a tile takes.
std::int64_t tile_bytes(const WireCodecs& codecs, std::int64_t tile) {
  const auto of = [tile](WireCodec codec) { return codec == WireCodec::kNone ? 0 : wire_bytes(codec, tile, {}); };
  return std::max(of(codecs.gather), of(codecs.reduce));
}

constexpr std::uint64_t kGatherKey = 1, kSumKey = 2;

}  // namespace

// A collective in tiles: fill() encodes a tile, empty() takes the decoded values of one.
class CodedCommunicator::Exchange : public Work::Operation {
 public:
  Exchange(CodedCommunicator& comm, WireCodec codec, std::int64_t numel, CommTag tag)
      : comm_(comm), codec_(codec), tag_(tag), numel_(numel), world_(comm.world()) {}
  ~Exchange() override { give_slot_back(); }

  // Begins to send the first tile, if a slot is free.
  void begin() {
    slot_ = comm_.free_slot(/*asynchronous=*/true);
    if (slot_ != nullptr) work_ = cross(0);
  }

  void wait() override {
    if (slot_ == nullptr) {
      slot_ = comm_.free_slot(/*asynchronous=*/false);
      work_ = cross(0);
    }
    for (std::int64_t first = 0; first < numel_ || first == 0; first += comm_.tile_numel_) {
      work_.wait();
      empty(first, numel_of_tile(first));
      if (first + comm_.tile_numel_ >= numel_) break;
      work_ = cross(first + comm_.tile_numel_);
    }
    give_slot_back();
    finish();
  }

 protected:
  // fill() encodes this rank's part of a tile into `wire`; send() begins to exchange it, into the memory of received().
  virtual void fill(std::int64_t first, std::int64_t numel, std::byte* wire) = 0;
  virtual Work send(std::span<const std::byte> wire, std::span<std::byte> into) = 0;
  virtual void empty(std::int64_t first, std::int64_t numel) = 0;
  virtual void finish() {}
  virtual int num_blocks_sent() const = 0;  // in a tile
  virtual std::int64_t& counted() = 0;      // number of bytes that were sent

  std::int64_t coded_bytes(std::int64_t numel) const { return wire_bytes(codec_, numel, {}); }
  // Returns rank r's part of a tile, as received.
  const std::byte* received(int r, std::int64_t numel) const {
    return slot_->memory.data() + (num_blocks_sent() + r) * coded_bytes(numel);
  }

  CodedCommunicator& comm_;
  const WireCodec codec_;
  const CommTag tag_;
  const std::int64_t numel_;  // elements of a rank's block
  const int world_;

 private:
  std::int64_t numel_of_tile(std::int64_t first) const { return std::min(comm_.tile_numel_, numel_ - first); }

  Work cross(std::int64_t first) {
    if (std::exchange(slot_->read_by_peers, true)) comm_.inner_.drain();
    const std::int64_t numel = numel_of_tile(first);
    const auto bytes = static_cast<std::size_t>(coded_bytes(numel)), sent = num_blocks_sent() * bytes;
    fill(first, numel, slot_->memory.data());
    counted() += (world_ - 1) * coded_bytes(numel);
    const std::span<std::byte> memory = slot_->memory.bytes();
    return send(memory.first(sent), memory.subspan(sent, static_cast<std::size_t>(world_) * bytes));
  }

  void give_slot_back() {
    if (slot_ != nullptr) std::exchange(slot_, nullptr)->taken = false;
  }

  Slot* slot_ = nullptr;
  Work work_;
};

class CodedCommunicator::Gather final : public Exchange {
 public:
  Gather(CodedCommunicator& comm, std::span<const std::byte> in, std::span<std::byte> out, DType dtype,
         std::uint64_t key, CommTag tag)
      : Exchange(comm, comm.codecs_.gather, static_cast<std::int64_t>(in.size() / size_of(dtype)), tag),
        in_(in),
        out_(out),
        dtype_(dtype),
        key_(key) {}

 private:
  int num_blocks_sent() const override { return 1; }
  std::int64_t& counted() override { return comm_.sent_.gathers; }
  void fill(std::int64_t first, std::int64_t numel, std::byte* wire) override {
    encode_for_wire(codec_, {in_.data() + first * width(), dtype_, numel}, {key_, first}, wire);
  }
  Work send(std::span<const std::byte> wire, std::span<std::byte> into) override {
    return comm_.inner_.all_gather(wire, into, tag_);
  }
  void empty(std::int64_t first, std::int64_t numel) override {
    for (int r = 0; r < world_; ++r) {
      std::byte* const to = out_.data() + (r * numel_ + first) * width();
      decode_from_wire(codec_, received(r, numel), numel, to, dtype_);
    }
  }
  std::int64_t width() const { return static_cast<std::int64_t>(size_of(dtype_)); }

  std::span<const std::byte> in_;
  std::span<std::byte> out_;
  DType dtype_;
  std::uint64_t key_;
};

class CodedCommunicator::Sum final : public Exchange {
 public:
  Sum(CodedCommunicator& comm, const ReduceScatter& request, std::uint64_t key, CommTag tag)
      : Exchange(
            comm, comm.codecs_.reduce,
            static_cast<std::int64_t>(tag.blocks.size(0, comm.world(), request.in.size()) / size_of(request.dtype)),
            tag),
        request_(request),
        key_(key) {}

 private:
  int num_blocks_sent() const override { return world_; }
  std::int64_t& counted() override { return comm_.sent_.sums; }
  void fill(std::int64_t first, std::int64_t numel, std::byte* wire) override {
    for (int r = 0; r < world_; ++r, wire += coded_bytes(numel)) {
      const auto width = static_cast<std::int64_t>(size_of(request_.dtype));
      const std::int64_t at =
          static_cast<std::int64_t>(tag_.blocks.offset(r, world_, request_.in.size())) / width + first;
      const std::byte* const from = request_.in.data() + at * width;
      encode_for_wire(codec_, {from, request_.dtype, numel}, {key_, at}, wire);
    }
  }
  Work send(std::span<const std::byte> wire, std::span<std::byte> into) override {
    return comm_.inner_.all_to_all(wire, into, {.unit = tag_.unit, .control = tag_.control});
  }
  // Works in blocks of statistics, which stay in cache. The sum begins with `onto`, if there is one.
  void empty(std::int64_t first, std::int64_t numel) override {
    for (std::int64_t begin = 0; begin < numel; begin += kStatsBlock)
      add(first, numel, begin, std::min(kStatsBlock, numel - begin));
  }
  void add(std::int64_t first, std::int64_t tile, std::int64_t begin, std::int64_t numel) {
    const auto part = [&](int r) { return received(r, tile) + coded_bytes(begin); };
    alignas(64) float sum[kStatsBlock];
    std::byte* const bytes = reinterpret_cast<std::byte*>(sum);
    int next = 0;
    if (request_.onto.empty()) {
      decode_from_wire(codec_, part(next++), numel, bytes, DType::kFloat32);
    } else {
      const std::byte* const onto = request_.onto.data() + (first + begin) * static_cast<std::int64_t>(sizeof(float));
      std::memcpy(bytes, onto, static_cast<std::size_t>(numel) * sizeof(float));
    }
    for (; next < world_; ++next) add_from_wire(codec_, part(next), numel, sum);
    const std::byte* const in[] = {bytes};
    sum_ranks({.in = in,
               .out = request_.out.data() + (first + begin) * static_cast<std::int64_t>(size_of(request_.out_dtype)),
               .out_dtype = request_.out_dtype,
               .numel = numel,
               .accumulate = request_.accumulate},
              request_.stats != nullptr ? &stats_ : nullptr);
  }
  void finish() override {
    if (request_.stats != nullptr) *request_.stats = stats_;
  }

  ReduceScatter request_;
  std::uint64_t key_;
  ReduceStats stats_;
};

std::int64_t CodedCommunicator::staging_bytes(int world, const WireCodecs& codecs, std::int64_t largest_numel,
                                              bool one_slot) {
  const std::int64_t slot = 2 * world * tile_bytes(codecs, tile_of(world, largest_numel));
  return world == 1 ? 0 : slot * (one_slot ? 1 : 2);
}

CodedCommunicator::CodedCommunicator(Communicator& inner, const WireCodecs& codecs, std::vector<DType> types,
                                     const Options& options)
    : inner_(inner),
      codecs_(codecs),
      types_(std::move(types)),
      options_(options),
      tile_numel_(tile_of(inner.world(), options.largest_numel)),
      gathers_(types_.size(), 0),
      sums_(types_.size(), 0),
      gathered_coded_(types_.size(), false) {
  const std::int64_t bytes = staging_bytes(inner.world(), codecs, options.largest_numel, /*one_slot=*/true);
  for (Slot& slot : slots_) {
    if (bytes == 0 || (&slot == &slots_.front() && options.one_slot)) continue;
    slot.memory = inner.allocate(static_cast<std::size_t>(bytes));
  }
}

void CodedCommunicator::begin_step(std::int64_t number) {
  step_ = number;
  std::ranges::fill(gathers_, 0);
  std::ranges::fill(sums_, 0);
}

bool CodedCommunicator::set_exact_gathers(bool exact) {
  return std::exchange(exact_gathers_, exact);
}

bool CodedCommunicator::codes(WireCodec codec, CommTag tag) const {
  return codec != WireCodec::kNone && tag.unit >= 0 && !tag.control && world() > 1;
}

std::uint64_t CodedCommunicator::key_of(std::span<int> rounds, CommTag tag) {
  const std::uint64_t kind = rounds.data() == sums_.data() ? kSumKey : kGatherKey;
  const auto round = static_cast<std::uint64_t>(rounds[static_cast<std::size_t>(tag.unit)]++);
  std::uint64_t key = mixed(kind, static_cast<std::uint64_t>(options_.contributor));
  for (const std::uint64_t part : {static_cast<std::uint64_t>(step_), static_cast<std::uint64_t>(tag.unit), round})
    key = mixed(key, part);
  return key;
}

CodedCommunicator::Slot* CodedCommunicator::free_slot(bool asynchronous) {
  Slot& slot = slots_[asynchronous ? 0 : 1];
  if (slot.taken || slot.memory.size() == 0) {
    ZERO_CHECK(asynchronous, "two coded collectives are waited for at once");
    return nullptr;
  }
  slot.taken = true;
  return &slot;
}

Work CodedCommunicator::all_gather(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  const bool coded = codes(codecs_.gather, tag) && !exact_gathers_;
  if (tag.unit >= 0) gathered_coded_[static_cast<std::size_t>(tag.unit)] = coded;
  if (!coded) return inner_.all_gather(in, out, tag);
  ZERO_CHECK(tag.blocks.equal(), "coded blocks are equal");
  const std::uint64_t key = options_.stochastic_gathers ? key_of(gathers_, tag) : 0;
  auto gather = std::make_unique<Gather>(*this, in, out, types_[static_cast<std::size_t>(tag.unit)], key, tag);
  gather->begin();
  return Work(std::move(gather));
}

Work CodedCommunicator::reduce_scatter(const ReduceScatter& request, CommTag tag) {
  if (!codes(codecs_.reduce, tag)) return inner_.reduce_scatter(request, tag);
  request.check(world());
  ZERO_CHECK(tag.blocks.equal(), "coded blocks are equal");
  ZERO_CHECK(request.merges.empty(), "coded sums are made in rank order");
  auto sum = std::make_unique<Sum>(*this, request, key_of(sums_, tag), tag);
  sum->begin();
  return Work(std::move(sum));
}

Work CodedCommunicator::all_to_all(std::span<const std::byte> in, std::span<std::byte> out, CommTag tag) {
  return inner_.all_to_all(in, out, tag);
}

Work CodedCommunicator::broadcast(std::span<std::byte> data, int root, CommTag tag) {
  return inner_.broadcast(data, root, tag);
}

Work CodedCommunicator::send(std::span<const std::byte> data, int to, CommTag tag) {
  return inner_.send(data, to, tag);
}

Work CodedCommunicator::receive(std::span<std::byte> data, int from, CommTag tag) {
  return inner_.receive(data, from, tag);
}

}  // namespace zero

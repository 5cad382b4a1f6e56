#include "zero/serve/pushed_gradients.h"

#include <cstring>
#include <utility>

#include "zero/memory/account/host_memory.h"

namespace zero {

PushedGradients::PushedGradients(const PushLayout& layout, int server, int workers, Ledger& ledger)
    : layout_(layout),
      server_(server),
      blocks_(allocate_host, ledger, MemoryTag::kStaging),
      pushes_(static_cast<std::size_t>(workers)) {
  for (const Unit& unit : layout.units()) {
    offsets_.push_back(bytes_);
    if (unit.trainable) bytes_ += shard_bytes(unit);
  }
}

std::size_t PushedGradients::shard_bytes(const Unit& unit) const {
  return static_cast<std::size_t>(layout_.part(unit, server_).shard_numel) * size_of(layout_.gradient_dtype(unit));
}

std::byte* PushedGradients::begin(int worker, const PushHeader& header, std::vector<bool> present) {
  std::byte* const data = blocks_.acquire(static_cast<std::int64_t>(bytes_), 0);
  for (const Unit& unit : layout_.units()) {
    if (!unit.trainable) continue;
    // No worker sends the padding at a shard's end.
    const std::span<std::byte> sent = part(data, unit);
    std::memset(sent.data() + sent.size(), 0, shard_bytes(unit) - sent.size());
  }
  pushes_[static_cast<std::size_t>(worker)].push_back({header, std::move(present), data});
  return data;
}

std::span<std::byte> PushedGradients::part(std::byte* push, const Unit& unit) const {
  return {push + offsets_[static_cast<std::size_t>(unit.index)],
          static_cast<std::size_t>(layout_.gradient_bytes(unit, server_))};
}

void PushedGradients::drop_oldest(int worker) {
  std::deque<Push>& pushes = pushes_[static_cast<std::size_t>(worker)];
  blocks_.release(pushes.front().data);
  pushes.pop_front();
}

void PushedGradients::drop_newest(int worker) {
  std::deque<Push>& pushes = pushes_[static_cast<std::size_t>(worker)];
  blocks_.release(pushes.back().data);
  pushes.pop_back();
}

GivenGradients PushedGradients::sum_of(const std::vector<int>& workers, int micro_batches) const {
  GivenGradients given{.number = static_cast<int>(workers.size()) * micro_batches};
  for (const int worker : workers) {
    const std::vector<bool>& present = pushes_of(worker).front().present;
    given.present.resize(present.size());
    for (std::size_t param = 0; param < present.size(); ++param)
      if (present[param]) given.present[param] = true;
  }
  given.dtype = [this](const Unit& unit) { return layout_.gradient_dtype(unit); };
  given.shards = [this, workers](int unit) {
    std::vector<const std::byte*> shards;
    for (const int worker : workers)
      shards.push_back(pushes_of(worker).front().data + offsets_[static_cast<std::size_t>(unit)]);
    return shards;
  };
  return given;
}

}  // namespace zero

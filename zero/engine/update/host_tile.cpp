#include "zero/engine/update/host_tile.h"

#include <algorithm>

#include "zero/base/error/check.h"

namespace zero {

HostTile::~HostTile() {
  for (const Block& block : held_) blocks_.release(block.data, block.sent ? used_in(device_, Lane::kUp) : LastUse{});
}

std::byte* HostTile::room(std::span<const std::byte> there) {
  held_.push_back({blocks_.acquire(std::ssize(there), 0), there});
  return held_.back().data;
}

std::byte* HostTile::bring(std::span<const std::byte> there) {
  std::byte* const data = room(there);
  for (const Lane earlier : {Lane::kUp, Lane::kUpdate}) follow(device_, Lane::kDown, earlier);
  const LaneSpan timed = time(Activity::kLinkDown, std::ssize(there));
  device_.copy(Lane::kDown, {data, there.size()}, there);
  brought_ = true;
  return data;
}

void HostTile::wait() {
  if (brought_) device_.join(device_.mark(Lane::kDown));
  for (const Block& block : held_) {
    const Access access = changes(std::span(block.data, block.there.size()));
    device_.host_touches({&access, 1}, "a tile on the host");
  }
}

void HostTile::send(std::span<std::byte> there) {
  const auto block = std::ranges::find_if(held_, [there](const Block& each) {
    return there.data() >= each.there.data() && there.data() + there.size() <= each.there.data() + each.there.size();
  });
  ZERO_CHECK(block != held_.end(), "a part without a place on the host is copied to the device");
  if (!block->sent) follow(device_, Lane::kUp, Lane::kCompute);
  block->sent = true;
  const LaneSpan timed = time(Activity::kLinkUp, std::ssize(there));
  device_.copy(Lane::kUp, there, {block->data + (there.data() - block->there.data()), there.size()});
}

}  // namespace zero

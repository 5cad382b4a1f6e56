// A transfer in two legs: the second begins when the first has ended.
//
//   Transfer up = chain(disk.read(place, block), [&] { return link.up(block, block); });
//   up.done();        // begins the second leg as soon as the first is over; so does wait()
//
// No thread watches: until a caller asks, the second leg does not begin. An error of the first leg is wait()'s, and
// there is no second. Local.
#pragma once

#include <functional>

#include "zero/memory/transfer.h"

namespace zero {

[[nodiscard]] Transfer chain(Transfer first, std::function<Transfer()> second);

}  // namespace zero

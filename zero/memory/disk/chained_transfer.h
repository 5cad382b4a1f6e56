// chain(): combines two transfers into one; the second begins after the first has ended.
//
//   Transfer up = chain(disk.read(place, block), [&] { return link.up(block, block); });
//   up.done();        // begins the second transfer if the first has ended; so does wait()
//
// No thread watches: the second transfer begins only when a caller asks. wait() throws an error of the first transfer;
// the second then does not begin. Local.
#pragma once

#include <functional>

#include "zero/memory/io/transfer.h"

namespace zero {

[[nodiscard]] Transfer chain(Transfer first, std::function<Transfer()> second);

}  // namespace zero

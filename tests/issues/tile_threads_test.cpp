// One thread updated a tile of states on the host or on disk, for any number of threads. The smallest work of a thread
// was a whole tile. On a machine with 16 cores an update on the host took five times as long as necessary.
#include <gtest/gtest.h>

#include "zero/engine/states/tile_stream.h"
#include "zero/optim/rule/update_span.h"

namespace zero {
namespace {

TEST(TileThreads, AllUpdateElementwiseTiles) {
  for (const int threads : {2, 4, 16})
    EXPECT_EQ(update_grain(TileStream::kTileNumel, threads, /*by_element=*/true), TileStream::kTileNumel / threads);
}

TEST(TileThreads, SumsOfColumnsStayLong) {
  EXPECT_EQ(update_grain(TileStream::kTileNumel, 16, /*by_element=*/false), TileStream::kTileNumel);
}

}  // namespace
}  // namespace zero

// A tile of states that lie on the host or a disk was updated by one thread, whatever their number: the least that a thread takes was
// a whole tile. On a machine of 16 cores an update on the host took five times as long as it need.
#include <gtest/gtest.h>

#include "zero/engine/states/tile_stream.h"
#include "zero/optim/rule/update_grain.h"

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

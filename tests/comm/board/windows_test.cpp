#include "zero/comm/board/windows.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

Allocation board(int world) {
  const FileDescriptor file = make_memory_file("test board", Board::bytes(world));
  return map_memory_file(file.get(), Board::bytes(world), true);
}

// Two ranks in one process. Descriptors are still sent through sockets.
class WindowsTest : public ::testing::Test {
 protected:
  WindowsTest() {
    auto [first, second] = UnixSocket::pair();
    std::vector<UnixSocket> here(2), there(2);
    here[1] = std::move(first);
    there[0] = std::move(second);
    constexpr milliseconds kLong{60000};  // ends a hang, not a slow machine
    a_ = std::make_unique<Windows>(HostRendezvous{.board = board(2), .sockets = std::move(here)}, 0, kLong);
    b_ = std::make_unique<Windows>(HostRendezvous{.board = board(2), .sockets = std::move(there)}, 1, kLong);
  }
  std::unique_ptr<Windows> a_, b_;
};

int num_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("zero.cpp window") != std::string::npos;
  return count;
}

TEST_F(WindowsTest, PeerSeesWindowWrites) {
  Allocation memory = a_->allocate(10000);
  const auto in = memory.bytes().subspan(5000, 100);
  EXPECT_TRUE(a_->readable_in_place(in));
  const Source source = a_->share(in);
  const std::byte* there = b_->find(0, source);
  EXPECT_NE(there, in.data());
  in[7] = std::byte{42};
  EXPECT_EQ(there[7], std::byte{42});
  // After its announcement the peer finds the window without another message.
  EXPECT_EQ(b_->find(0, a_->share(in)), there);
}

TEST_F(WindowsTest, GroupBoardIsSharedMemory) {
  std::jthread other([&] {
    const Allocation there = b_->share_board(first_ranks(2), 1, 5000);
    there.data()[7] = std::byte{42};
  });
  const Allocation here = a_->share_board(first_ranks(2), 1, 5000);
  other.join();
  EXPECT_EQ(here.data()[7], std::byte{42});
  EXPECT_EQ(here.data()[8], std::byte{0});
}

TEST_F(WindowsTest, NumbersDistinguishBoards) {
  const Allocation one = a_->share_board(first_ranks(2), 1, 100), two = a_->share_board(first_ranks(2), 2, 200);
  one.data()[0] = std::byte{1};
  two.data()[0] = std::byte{2};
  EXPECT_EQ(b_->share_board(first_ranks(2), 2, 200).data()[0], std::byte{2});
  EXPECT_EQ(b_->share_board(first_ranks(2), 1, 100).data()[0], std::byte{1});
}

TEST_F(WindowsTest, UnsharedBoardNamesTheRank) {
  a_ = nullptr;
  EXPECT_TRUE(says(message_of<CommError>([&] { b_->share_board(first_ranks(2), 1, 100); }),
                   "rank 0: opening a group: it did not share the group's board"));
}

TEST_F(WindowsTest, WorksWithoutHugePages) {
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  Allocation memory = a_->allocate(std::size_t{4} << 20, Written::kWhole);
  const Source source = a_->share(memory.bytes());
  const std::byte* there = b_->find(0, source);
  memory.bytes().back() = std::byte{42};
  EXPECT_EQ(there[memory.size() - 1], std::byte{42});
  EXPECT_EQ(::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
}

TEST_F(WindowsTest, OutsideBytesUseReusableCopies) {
  std::vector<std::byte> heap(100000, std::byte{7});
  EXPECT_FALSE(a_->readable_in_place(heap));
  const Source first = a_->share(heap);
  heap[0] = std::byte{8};
  EXPECT_EQ(b_->find(0, first)[0], std::byte{7});
  const Source second = a_->share(heap);
  EXPECT_NE(second.number, first.number) << "the first is still being read";
  a_->reclaim(first);
  EXPECT_EQ(a_->share(heap).number, first.number);
}

TEST_F(WindowsTest, LargeCopiesAreGivenBack) {
  std::vector<std::byte> heap(std::size_t{40} << 20);
  const int before = num_mappings();
  const Source source = a_->share(heap);
  EXPECT_NE(b_->find(0, source), nullptr);
  EXPECT_EQ(num_mappings(), before + 2);
  a_->reclaim(source);
  EXPECT_EQ(num_mappings(), before + 1);
  Allocation any = b_->allocate(1);  // reads the notice
  EXPECT_EQ(num_mappings(), before + 1);
}

TEST_F(WindowsTest, PeerUnmapsAReleasedWindow) {
  const int before = num_mappings();
  {
    Allocation memory = a_->allocate(1 << 20);
    std::ranges::fill(memory.bytes(), std::byte{1});
    const std::byte* there = b_->find(0, a_->share(memory.bytes()));
    EXPECT_EQ(there[5], std::byte{1});
    memory = {};
    // The peer still maps the window, but its pages are freed.
    EXPECT_EQ(there[5], std::byte{0});
  }
  Allocation any = b_->allocate(1);  // reads the notice
  any = {};
  EXPECT_EQ(num_mappings(), before);
}

TEST_F(WindowsTest, PeersCannotWriteAMap) {
  Allocation memory = a_->allocate(4096);
  const std::byte* there = b_->find(0, a_->share(memory.bytes()));
  EXPECT_DEATH(*const_cast<std::byte*>(there) = std::byte{1}, "");
}

TEST_F(WindowsTest, NoReadCrossesTwoWindows) {
  Allocation memory = a_->allocate(4096);
  EXPECT_TRUE(a_->readable_in_place(memory.bytes()));
  EXPECT_FALSE(a_->readable_in_place({memory.data() + 1, 4096}));
  EXPECT_FALSE(a_->readable_in_place({memory.data() - 1, 1}));
}

TEST_F(WindowsTest, EndOfFileMeansDeath) {
  EXPECT_EQ(a_->dead(), 0u);
  b_ = nullptr;
  EXPECT_EQ(a_->dead(), only(1));
}

TEST_F(WindowsTest, DescribesAProcessByItsState) {
  EXPECT_EQ(a_->describe(1), "") << "the process has not registered yet";
  Board view(a_->board(), 2);
  view[1].process.store(getpid());
  EXPECT_NE(a_->describe(1).find("is computing"), std::string::npos);
  view[1].process.store(1 << 30);
  EXPECT_EQ(a_->describe(1), "process 1073741824 is gone");
}

}  // namespace
}  // namespace zero

#include "app/launch/ranks/line_merger.h"

#include <array>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace zero {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
const LineMerger::Time kStart{};

TEST(RankPrefix, NamesRangesAndSingles) {
  EXPECT_EQ(rank_prefix(std::array{3}), "[rank 3] ");
  EXPECT_EQ(rank_prefix(std::array{0, 1, 2, 5}), "[ranks 0-2 5] ");
  EXPECT_EQ(rank_prefix(std::array{1, 3}), "[ranks 1 3] ");
}

TEST(LineMerger, CommonLinePrintsOnceAtOnce) {
  LineMerger merger(2, milliseconds(100));
  merger.add(1, "bad", kStart);
  EXPECT_EQ(merger.take(kStart), Lines{});
  merger.add(0, "bad", kStart);
  EXPECT_EQ(merger.take(kStart), Lines{"[ranks 0-1] bad"});
}

TEST(LineMerger, OneRanksLineWaits) {
  LineMerger merger(2, milliseconds(100));
  merger.add(1, "mine", kStart);
  EXPECT_EQ(merger.due(), kStart + milliseconds(100));
  EXPECT_EQ(merger.take(kStart + milliseconds(99)), Lines{});
  EXPECT_EQ(merger.take(kStart + milliseconds(100)), Lines{"[rank 1] mine"});
  EXPECT_EQ(merger.due(), std::nullopt);
}

TEST(LineMerger, RepeatedLinePrintsTwice) {
  LineMerger merger(2, milliseconds(100));
  merger.add(0, "again", kStart);
  merger.add(0, "again", kStart);
  EXPECT_EQ(merger.take_all(), (Lines{"[rank 0] again", "[rank 0] again"}));
}

TEST(LineMerger, MergingKeepsEachRanksOrder) {
  LineMerger merger(2, milliseconds(100));
  merger.add(0, "a", kStart);
  merger.add(0, "b", kStart);
  merger.add(1, "b", kStart);
  merger.add(1, "a", kStart);
  EXPECT_EQ(merger.take_all(), (Lines{"[rank 0] a", "[ranks 0-1] b", "[rank 1] a"}));
}

TEST(LineMerger, CompleteLineWaitsForEarlierOne) {
  LineMerger merger(2, milliseconds(100));
  merger.add(0, "first", kStart);
  merger.add(0, "second", kStart);
  merger.add(1, "second", kStart);
  EXPECT_EQ(merger.take(kStart), Lines{});
  EXPECT_EQ(merger.take(kStart + milliseconds(100)), (Lines{"[rank 0] first", "[ranks 0-1] second"}));
}

// The ranks in "[ranks 0-2 5] line".
std::set<int> ranks_of(const std::string& line) {
  std::set<int> out;
  for (int rank = 0; rank < 8; ++rank) {
    for (int end = rank; end < 8; ++end) {
      std::vector<int> run;
      for (int r = rank; r <= end; ++r) run.push_back(r);
      const std::string name = rank_prefix(run);
      const std::string word = " " + name.substr(name.find(' ') + 1, name.find(']') - name.find(' ') - 1);
      const auto at = line.find(word);
      if (at != std::string::npos && (line[at + word.size()] == ' ' || line[at + word.size()] == ']'))
        out.insert(run.begin(), run.end());
    }
  }
  return out;
}

TEST(LineMerger, LosesNothingAndKeepsRankOrder) {
  rc::check([] {
    LineMerger merger(4, milliseconds(10));
    std::map<int, Lines> said, printed;
    const auto count = *rc::gen::inRange(0, 40);
    auto now = kStart;
    const auto collect = [&](const Lines& lines) {
      for (const auto& line : lines) {
        const std::string prefix = line.substr(0, line.find(']') + 1);
        for (const int rank : ranks_of(prefix)) printed[rank].push_back(line.substr(prefix.size() + 1));
      }
    };
    for (int i = 0; i < count; ++i) {
      const int rank = *rc::gen::inRange(0, 4);
      const std::string line(1, static_cast<char>('a' + *rc::gen::inRange(0, 3)));
      now += milliseconds(*rc::gen::inRange(0, 6));
      said[rank].push_back(line);
      merger.add(rank, line, now);
      collect(merger.take(now));
    }
    collect(merger.take_all());
    RC_ASSERT(said == printed);
  });
}

TEST(LineSplitter, CutsAtNewlinesOfAnyChunks) {
  rc::check([] {
    const auto text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '\n'));
    LineSplitter splitter;
    Lines lines;
    for (std::size_t at = 0; at < text.size();) {
      const auto size = *rc::gen::inRange<std::size_t>(1, text.size() - at + 1);
      splitter.feed(std::string_view(text).substr(at, size), lines);
      at += size;
    }
    std::string joined;
    for (const auto& line : lines) joined += line + "\n";
    joined += splitter.rest().value_or("");
    RC_ASSERT(joined == text);
  });
}

TEST(LineSplitter, CutsEndlessLines) {
  LineSplitter splitter;
  Lines lines;
  splitter.feed(std::string(LineSplitter::kLongestLine, 'x'), lines);
  EXPECT_EQ(lines.size(), 1u);
  EXPECT_EQ(splitter.rest(), std::nullopt);
}

}  // namespace
}  // namespace zero

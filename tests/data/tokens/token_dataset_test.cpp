#include "app/data/tokens/token_dataset.h"

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

using Tokens = std::vector<std::int64_t>;

// A file whose token at position p is p, so a window shows its position.
class Counting {
 public:
  explicit Counting(std::int64_t count) {
    Tokens tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    path_ = folder_.write("train.bin", raw_tokens<std::uint16_t>(tokens));
  }
  TokenDataset part(std::int64_t begin, std::int64_t end, std::int64_t context) const {
    return TokenDataset(TokenStream(path_, TokenKind::kTokens), begin, end, context);
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

const Tokens& tokens_of(const Array& array) {
  return std::get<Tokens>(array.values);
}

// Reported as "device_memory ... 256 GiB", because the token table would have had that many rows.
TEST(TokenDataset, NamesADamagedTokensPlace) {
  const TemporaryFolder folder;
  const auto refused = [&](std::uint32_t token) {
    std::vector<std::int64_t> tokens(40, 7);
    tokens[25] = token;
    const auto file = folder.write("t.bin", llmc_header(20240801, 7, 40) + raw_tokens<std::uint32_t>(tokens));
    return message_of<ConfigError>([&] { TokenDataset(TokenStream(file, TokenKind::kTokens), 0, 40, 4, "data.path"); });
  };
  EXPECT_TRUE(says(refused(2147483653U), "data.path = "));
  EXPECT_TRUE(
      says(refused(2147483653U),
           "t.bin: token 25 (counted from 0) is 2147483653 (-2147483643 with a sign), and no vocabulary has more "
           "than 16,777,216 tokens"));
  EXPECT_TRUE(says(refused(4294967291U), "is 4294967291 (-5 with a sign)"));
  EXPECT_TRUE(says(refused(1U << 24), "is 16777216, and no vocabulary"));
}

TEST(TokenDataset, TheTargetIsTheNextToken) {
  const auto data = Counting(20).part(0, 20, 3);
  Batch batch;
  EXPECT_EQ(data.fill(Tokens{0, 16}, batch), 6);
  EXPECT_EQ(batch.input.shape, (Tokens{2, 3}));
  EXPECT_EQ(batch.target.shape, (Tokens{2, 3}));
  EXPECT_EQ(tokens_of(batch.input), (Tokens{0, 1, 2, 16, 17, 18}));
  EXPECT_EQ(tokens_of(batch.target), (Tokens{1, 2, 3, 17, 18, 19}));
}

TEST(TokenDataset, APartSeesNothingOutsideIt) {
  const auto data = Counting(100).part(40, 60, 4);
  EXPECT_EQ(data.size(), 20);
  std::set<std::int64_t> seen;
  for (const Order order : {Order::kShuffled, Order::kSequential})
    for (std::int64_t g = 0; g < 500; ++g) {
      Batch batch;
      data.fill(Tokens{data.draw(order, 5, g)}, batch);
      for (const auto* const array : {&batch.input, &batch.target})
        seen.insert(tokens_of(*array).begin(), tokens_of(*array).end());
    }
  EXPECT_EQ(*seen.begin(), 40);
  EXPECT_EQ(*seen.rbegin(), 59);
}

// The formula of the libraries that zero.cpp is compared with: start = (g * context) mod (tokens - context - 1).
TEST(TokenDataset, SequentialOrderIsThePeersFormula) {
  const auto data = Counting(50).part(0, 50, 8);
  for (std::int64_t g = 0; g < 200; ++g) EXPECT_EQ(data.draw(Order::kSequential, 1, g), g * 8 % (50 - 8 - 1));
  const std::int64_t large = std::int64_t{1} << 61;
  EXPECT_EQ(data.draw(Order::kSequential, 1, large), static_cast<std::int64_t>(static_cast<__int128>(large) * 8 % 41));
}

TEST(TokenDataset, ShuffledOrderReachesEveryWindow) {
  const auto data = Counting(20).part(0, 20, 4);
  std::set<std::int64_t> starts;
  for (std::int64_t g = 0; g < 1000; ++g) starts.insert(data.draw(Order::kShuffled, 3, g));
  EXPECT_EQ(starts.size(), 16u);
  EXPECT_EQ(*starts.rbegin(), 15);
}

// A pass has every target of the part exactly once, in order. The rest is padding that does not count.
RC_GTEST_PROP(TokenDataset, APassCountsEveryTargetOnce, ()) {
  const auto context = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto count = *rc::gen::inRange<std::int64_t>(context + 2, 120);
  const auto data = Counting(count).part(0, count, context);
  Tokens targets;
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < data.pass_size(); ++i) {
    Batch batch;
    counted += data.fill(Tokens{data.pass_sample(i)}, batch);
    RC_ASSERT(batch.input.shape == (Tokens{1, context}));
    for (std::size_t at = 0; at < tokens_of(batch.target).size(); ++at) {
      const auto target = tokens_of(batch.target)[at];
      if (target == kIgnoredTarget) continue;
      RC_ASSERT(target == tokens_of(batch.input)[at] + 1);
      targets.push_back(target);
    }
  }
  Tokens expected(static_cast<std::size_t>(count - 1));
  std::iota(expected.begin(), expected.end(), 1);
  RC_ASSERT(targets == expected);
  RC_ASSERT(counted == count - 1);
}

TEST(TokenDataset, ShortDataNamesHaveAndNeed) {
  const Counting file(100);
  const auto message = message_of<ConfigError>([&] { file.part(90, 100, 64); });
  EXPECT_TRUE(says(message, "too short: 10 of its 100 tokens are in this split, a context of 64 needs at least 66"));
  EXPECT_TRUE(says(message, "a context (data.context, model.context) of at most 8"));
  EXPECT_NO_THROW(file.part(0, 66, 64));
  EXPECT_THROW(file.part(0, 65, 64), ConfigError);
}

TEST(TokenDataset, ClassesAreLargestTokenPlusOne) {
  EXPECT_EQ(Counting(300).part(0, 300, 4).shape().classes, 300);
  EXPECT_EQ(Counting(300).part(0, 200, 4).shape().classes, 200);
  EXPECT_EQ(Counting(300).part(0, 200, 4).shape().context, 4);
  const TemporaryFolder folder;
  const TokenDataset text(TokenStream(folder.write("input.txt", "abcdefgh"), TokenKind::kText), 0, 8, 4);
  EXPECT_EQ(text.shape().classes, 256);
}

TEST(TokenDataset, BadTokenNamesItsPosition) {
  const auto data = Counting(200).part(100, 200, 4);
  EXPECT_NO_THROW(data.require_classes(200, "model.vocab"));
  const auto message = message_of<ConfigError>([&] { data.require_classes(150, "model.vocab"); });
  EXPECT_TRUE(says(message, "model.vocab = 150: too small: token 150 of "));
  EXPECT_TRUE(says(message, "train.bin is 150\n  set it to at least 200"));
}

TEST(TokenDataset, LargestTokenHasItsFirstPlace) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.bin", raw_tokens<std::uint16_t>({1, 9, 2, 9, 0, 3}));
  const auto largest_from = [&](std::int64_t begin) {
    return TokenDataset(TokenStream(path, TokenKind::kTokens), begin, 6, 2).largest_token();
  };
  EXPECT_EQ(largest_from(0), "token 1 of " + path.string() + " is 9");
  EXPECT_EQ(largest_from(2), "token 3 of " + path.string() + " is 9");
}

TEST(TokenDataset, ChecksTokensInLargeFiles) {
  const TemporaryFolder folder;
  Tokens tokens(200'000, 7);
  tokens[131'072] = 40'000;
  const TokenDataset data(TokenStream(folder.write("a.bin", raw_tokens<std::uint16_t>(tokens)), TokenKind::kTokens), 0,
                          200'000, 16);
  EXPECT_EQ(data.shape().classes, 40'001);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { data.require_classes(1000, "model.vocab"); }), "token 131,072 of "));
}

TEST(TokenDataset, TextChecksOnlyItsPart) {
  const TemporaryFolder folder;
  const TokenDataset data(TokenStream(folder.write("input.txt", "abcabcabcz"), TokenKind::kText), 0, 9, 4);
  EXPECT_NO_THROW(data.require_classes(100, "model.vocab"));  // 'c' is 99; the 'z' is outside the part
  EXPECT_TRUE(says(message_of<ConfigError>([&] { data.require_classes(99, "model.vocab"); }), "token 2 of "));
}

TEST(TokenDataset, RejectsSamplesOutsideThePart) {
  const auto data = Counting(20).part(0, 20, 4);
  Batch batch;
  EXPECT_THROW(data.fill(Tokens{19}, batch), InternalError);
  EXPECT_THROW(data.fill(Tokens{-1}, batch), InternalError);
  EXPECT_EQ(data.fill(Tokens{18}, batch), 1);
}

}  // namespace
}  // namespace zero

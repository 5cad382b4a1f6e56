#include "app/data/tokens/token_shards.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/data/tokens/token_dataset.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

std::vector<std::int64_t> counted(std::int64_t count, std::int64_t first = 0) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::string narrow(std::int64_t count, std::int64_t first = 0) {
  return raw_tokens<std::uint16_t>(counted(count, first));
}

// Tokens 0, 1, 2 ... in files of these sizes.
DataFiles cut_into(const TemporaryFolder& folder, const std::vector<std::int64_t>& sizes) {
  DataFiles files;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    files.paths.push_back(folder.write("shard" + std::to_string(files.paths.size()), narrow(size, first)).string());
    first += size;
  }
  return files;
}

std::string refusal_of_shards(const DataFiles& files) {
  return message_of<ConfigError>([&] { TokenShards(files, TokenKind::kTokens, "data.path"); });
}

TEST(TokenShards, FormOneStreamInFileOrder) {
  const TemporaryFolder folder;
  const TokenShards shards(cut_into(folder, {3, 1, 5}), TokenKind::kTokens, "data.path");
  EXPECT_EQ(shards.size(), 9);
  std::vector<std::int64_t> all(9), middle(4);
  shards.read(0, all);
  EXPECT_EQ(all, counted(9));
  shards.read(2, middle);
  EXPECT_EQ(middle, counted(4, 2));
  EXPECT_TRUE(shards.place(3).path.ends_with("shard1"));
  EXPECT_EQ(shards.place(3).position, 0);
  EXPECT_TRUE(shards.place(8).path.ends_with("shard2"));
  EXPECT_EQ(shards.place(8).position, 4);
  EXPECT_THROW(shards.read(7, middle), InternalError);
}

// Runs in its own process. Its free addresses hold only a sixth of the shards, so it can neither hold nor map them all.
TEST(TokenShards, MayExceedTheProcesssMemory) {
  if (built::kSanitized) GTEST_SKIP() << "a sanitizer takes addresses of its own";
  constexpr std::int64_t kShards = 3, kShardTokens = 16 << 20, kTokens = kShards * kShardTokens, kContext = 1 << 16;
  constexpr rlim_t kLeft = 16 << 20;
  static_assert(kTokens * 2 >= 6 * std::int64_t{kLeft});
  const TemporaryFolder folder;
  DataFiles files;  // holes, except for each last token
  for (std::int64_t i = 0; i < kShards; ++i) {
    const auto path = folder.write(fmt::format("shard{}", i), "");
    std::filesystem::resize_file(path, (kShardTokens - 1) * 2);
    std::ofstream(path, std::ios::binary | std::ios::app) << narrow(1, 7 + i);
    files.paths.push_back(path.string());
  }
  const auto said = [&]() -> std::string {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kLeft;
    const rlimit less{limit, limit};
    if (setrlimit(RLIMIT_AS, &less) != 0) return "no limit";
    if (::mmap(nullptr, kTokens * 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) return "all fits";
    const TokenDataset data(TokenShards(files, TokenKind::kTokens, "data.path"), 0, kTokens, kContext);
    std::int64_t targets = 0, sum = 0;
    Batch batch;
    for (std::int64_t i = 0; i < data.pass_size(); ++i) {
      const std::vector<std::int64_t> sample{data.pass_sample(i)};
      targets += data.fill(sample, batch);
      for (const std::int64_t target : std::get<std::vector<std::int64_t>>(batch.target.values))
        if (target != kIgnoredTarget) sum += target;
    }
    return fmt::format("{} classes, {} targets, sum {}", data.shape().classes, targets, sum);
  };
  EXPECT_EXIT(
      {
        std::cerr << said();
        std::exit(0);
      },
      testing::ExitedWithCode(0), fmt::format("10 classes, {} targets, sum 24", kTokens - 1));
}

// A stream that is cut into files anywhere gives the samples of the whole stream, in each order and in a pass.
RC_GTEST_PROP(TokenShards, CutsChangeNoSample, ()) {
  auto sizes =
      *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange(0, 5), rc::gen::inRange<std::int64_t>(1, 30));
  // At least one file has six tokens, so there are samples.
  sizes.insert(sizes.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(sizes) + 1),
               *rc::gen::inRange<std::int64_t>(6, 30));
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto context = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(size - 4, 20));
  const auto begin = *rc::gen::inRange<std::int64_t>(0, size - context - 2);
  const TemporaryFolder folder;
  const TokenDataset whole(TokenStream(folder.write("whole", narrow(size)), TokenKind::kTokens), begin, size, context);
  const TokenDataset cut(TokenShards(cut_into(folder, sizes), TokenKind::kTokens, "data.path", begin, size), begin,
                         size, context);
  RC_ASSERT(cut.pass_size() == whole.pass_size());
  RC_ASSERT(cut.shape().classes == whole.shape().classes);
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < whole.pass_size(); ++i) samples.push_back(whole.pass_sample(i));
  for (const Order order : {Order::kShuffled, Order::kSequential})
    for (std::int64_t g = 0; g < 20; ++g) {
      samples.push_back(whole.draw(order, 3, g));
      RC_ASSERT(cut.draw(order, 3, g) == samples.back());
    }
  Batch expected, got;
  RC_ASSERT(cut.fill(samples, got) == whole.fill(samples, expected));
  RC_ASSERT(got.input.values == expected.input.values);
  RC_ASSERT(got.target.values == expected.target.values);
}

TEST(TokenShards, OnlyThePartsFilesStayOpen) {
  const TemporaryFolder folder;
  const DataFiles files = cut_into(folder, {10, 10, 10});
  const TokenShards last(files, TokenKind::kTokens, "data.path", 20, 30);
  EXPECT_EQ(last.size(), 30);
  std::vector<std::int64_t> tokens(10);
  last.read(20, tokens);
  EXPECT_EQ(tokens, counted(10, 20));
  EXPECT_THROW(last.read(19, tokens), InternalError) << "a reader may not read outside its part";
}

TEST(TokenShards, MismatchedFileIsNamed) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.bin", narrow(20)).string();
  const auto with = [&](const std::string& name, const std::string& bytes) {
    return DataFiles{{good, folder.write(name, bytes).string()}};
  };
  EXPECT_TRUE(says(refusal_of_shards({{good, (folder / "none.bin").string()}}), "none.bin"));
  EXPECT_TRUE(says(refusal_of_shards(with("empty.bin", "")), "empty.bin: the file is empty"));
  EXPECT_TRUE(says(refusal_of_shards({{good, good}}), "good.bin: is named twice"));
  const std::string wide =
      refusal_of_shards(with("wide.bin", llmc_header(20240801, 7, 3) + raw_tokens<std::uint32_t>({1, 2, 3})));
  EXPECT_TRUE(says(wide, "wide.bin: holds llm.c uint32 tokens of 4 bytes, but "));
  EXPECT_TRUE(says(wide, "good.bin holds nanoGPT uint16 tokens of 2 bytes"));
  EXPECT_TRUE(says(refusal_of_shards(folder.write("bare.bin", llmc_header(20240520, 1, 0))),
                   "bare.bin: the file has no tokens"));
}

TEST(TokenShards, BadTokenNamesFileAndPlace) {
  const TemporaryFolder folder;
  const TokenDataset data(TokenShards(cut_into(folder, {100, 100}), TokenKind::kTokens, "data.path"), 0, 200, 4);
  const auto message = message_of<ConfigError>([&] { data.require_classes(150, "model.vocab"); });
  EXPECT_TRUE(says(message, "model.vocab = 150: too small: token 50 of "));
  EXPECT_TRUE(says(message, "shard1 is 150"));
  EXPECT_TRUE(data.largest_token().starts_with("token 99 of ")) << data.largest_token();
  EXPECT_TRUE(data.largest_token().ends_with("shard1 is 199")) << data.largest_token();
}

}  // namespace
}  // namespace zero

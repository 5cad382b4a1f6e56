// BytePairTokenizer::learn(): joins the most frequent pair of neighbours, counts again, and repeats.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/data/tokens/byte_pair_tokenizer.h"

namespace zero {
namespace {

using Neighbours = std::pair<std::int64_t, std::int64_t>;

// A piece of the text, and the number of times that it occurs.
struct Word {
  std::vector<std::int64_t> tokens;
  std::int64_t count = 0;
};

// Pairs: the counts of all pairs of neighbours, updated when a pair is joined.
class Pairs {
 public:
  explicit Pairs(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t word = 0; word < words_.size(); ++word) count(word, +1);
    for (const auto& [pair, entry] : entries_) offer(pair);
  }

  // Finds the most frequent pair that occurs at least twice; of equally frequent pairs, the pair with the lowest
  // numbers.
  bool next(Neighbours& best) {
    while (!heap_.empty()) {
      const auto [count, left, right] = heap_.top();
      heap_.pop();
      best = {-left, -right};
      const auto entry = entries_.find(best);
      if (entry == entries_.end() || entry->second.count != count) continue;  // the count has changed
      return count >= 2;
    }
    return false;
  }

  void join(const Neighbours& pair, std::int64_t joined) {
    const std::set<std::size_t> touched = entries_[pair].words;
    std::set<Neighbours> changed;
    for (const std::size_t word : touched) {
      count(word, -1, &changed);
      std::vector<std::int64_t>& tokens = words_[word].tokens;
      std::size_t out = 0;
      for (std::size_t i = 0; i < tokens.size(); ++out) {
        const bool here = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
        tokens[out] = here ? joined : tokens[i];
        i += here ? 2 : 1;
      }
      tokens.resize(out);
      count(word, +1, &changed);
    }
    for (const Neighbours& other : changed) {
      if (entries_[other].count > 0) {
        offer(other);
      } else {
        entries_.erase(other);
      }
    }
  }

 private:
  struct Entry {
    std::int64_t count = 0;
    std::set<std::size_t> words;
  };

  void offer(const Neighbours& pair) { heap_.emplace(entries_[pair].count, -pair.first, -pair.second); }

  void count(std::size_t word, int sign, std::set<Neighbours>* changed = nullptr) {
    const std::vector<std::int64_t>& tokens = words_[word].tokens;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Neighbours pair{tokens[i], tokens[i + 1]};
      Entry& entry = entries_[pair];
      entry.count += sign * words_[word].count;
      if (sign > 0) {
        entry.words.insert(word);
      } else {
        entry.words.erase(word);
      }
      if (changed != nullptr) changed->insert(pair);
    }
  }

  std::vector<Word> words_;
  std::map<Neighbours, Entry> entries_;
  std::priority_queue<std::tuple<std::int64_t, std::int64_t, std::int64_t>> heap_;
};

}  // namespace

BytePairTokenizer BytePairTokenizer::learn(std::string_view text, std::int64_t size) {
  constexpr std::int64_t kBytes = 256, kMost = 1 << 20;
  if (size < kBytes || size > kMost)
    throw ConfigError("--size", fmt::format("{}", size), "a tokenizer has the 256 bytes, and pairs",
                      fmt::format("allowed: {} to {}", kBytes, kMost));
  BytePairTokenizer tokenizer;
  for (std::int64_t byte = 0; byte < kBytes; ++byte) {
    tokenizer.tokens_.emplace_back(1, static_cast<char>(byte));
    tokenizer.numbers_.emplace(tokenizer.tokens_.back(), byte);
  }
  std::map<std::string_view, std::int64_t> counts;
  tokenizer.splitter_.split(text, [&](std::string_view piece) { ++counts[piece]; });
  std::vector<Word> words;
  for (const auto& [piece, count] : counts) {
    Word word{.tokens = {}, .count = count};
    for (const char c : piece) word.tokens.push_back(static_cast<unsigned char>(c));
    words.push_back(std::move(word));
  }
  Pairs pairs(std::move(words));
  Neighbours best;
  while (tokenizer.size() < size && pairs.next(best)) {
    const std::int64_t joined = tokenizer.size();
    std::string bytes = tokenizer.tokens_[static_cast<std::size_t>(best.first)] +
                        tokenizer.tokens_[static_cast<std::size_t>(best.second)];
    if (tokenizer.numbers_.contains(bytes)) {  // another pair gave the same bytes: the token gets another merge
      tokenizer.merges_.emplace(best, Merge{std::ssize(tokenizer.merge_order_), tokenizer.numbers_.at(bytes)});
      tokenizer.merge_order_.push_back(best);
      pairs.join(best, tokenizer.numbers_.at(bytes));
      continue;
    }
    tokenizer.numbers_.emplace(bytes, joined);
    tokenizer.tokens_.push_back(std::move(bytes));
    tokenizer.merges_.emplace(best, Merge{std::ssize(tokenizer.merge_order_), joined});
    tokenizer.merge_order_.push_back(best);
    pairs.join(best, joined);
  }
  return tokenizer;
}

}  // namespace zero

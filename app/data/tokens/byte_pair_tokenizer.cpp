#include "app/data/tokens/byte_pair_tokenizer.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero {
namespace {

// Link: a token of a piece, in a linked list in which neighbours are joined.
struct Link {
  std::int64_t token = 0;
  int before = -1, after = -1;
  bool alive = true;
};

}  // namespace

std::vector<std::int64_t> BytePairTokenizer::symbols_of(std::string_view piece) const {
  std::vector<std::int64_t> symbols;
  symbols.reserve(piece.size());
  if (!characters_) {
    for (const char byte : piece) symbols.push_back(numbers_.at(std::string(1, byte)));
    return symbols;
  }
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, CharacterPieces::character_bytes(piece, at));
    at += character.size();
    if (const auto known = numbers_.find(std::string(character)); known != numbers_.end()) {
      symbols.push_back(known->second);
    } else {
      for (const char byte : character) symbols.push_back(characters_->bytes[static_cast<unsigned char>(byte)]);
    }
  }
  return symbols;
}

void BytePairTokenizer::encode_piece(std::string_view piece, std::vector<std::int64_t>& out) const {
  if (whole_pieces_first_) {
    if (const auto whole = numbers_.find(std::string(piece)); whole != numbers_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  const std::vector<std::int64_t> symbols = symbols_of(piece);
  std::vector<Link> links(symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    links[i] = {.token = symbols[i],
                .before = static_cast<int>(i) - 1,
                .after = i + 1 < symbols.size() ? static_cast<int>(i) + 1 : -1};
  }
  // A merge's rank, its position, and both tokens. A candidate whose tokens have changed is skipped.
  using Candidate = std::tuple<std::int64_t, int, std::int64_t, std::int64_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](int left) {
    if (left < 0) return;
    const Link& link = links[static_cast<std::size_t>(left)];
    if (link.after < 0) return;
    const std::int64_t right = links[static_cast<std::size_t>(link.after)].token;
    if (const auto merge = merges_.find({link.token, right}); merge != merges_.end())
      candidates.emplace(merge->second.rank, left, link.token, right);
  };
  for (std::size_t i = 0; i + 1 < links.size(); ++i) consider(static_cast<int>(i));
  while (!candidates.empty()) {
    const auto [rank, at, first, second] = candidates.top();
    candidates.pop();
    Link& left = links[static_cast<std::size_t>(at)];
    if (!left.alive || left.token != first || left.after < 0) continue;
    Link& right = links[static_cast<std::size_t>(left.after)];
    if (right.token != second) continue;
    left.token = merges_.at({first, second}).joined;
    right.alive = false;
    left.after = right.after;
    if (left.after >= 0) links[static_cast<std::size_t>(left.after)].before = at;
    consider(left.before);
    consider(at);
  }
  for (int at = 0; at >= 0 && at < static_cast<int>(links.size()); at = links[static_cast<std::size_t>(at)].after)
    out.push_back(links[static_cast<std::size_t>(at)].token);
}

void BytePairTokenizer::encode(std::string_view text, std::vector<std::int64_t>& out, bool begins) const {
  constexpr std::size_t kMostKept = 1 << 16, kLongestKept = 64;
  std::unordered_map<std::string_view, std::vector<std::int64_t>> known;  // most pieces occur many times
  const auto take = [&](std::string_view piece) {
    if (const auto found = known.find(piece); found != known.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
      return;
    }
    const std::size_t begin = out.size();
    encode_piece(piece, out);
    if (known.size() < kMostKept && piece.size() <= kLongestKept)
      known.emplace(piece, std::vector<std::int64_t>(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end()));
  };
  const auto take_special = [&](std::int64_t number) { out.push_back(number); };
  if (!characters_) {
    specials_.split(
        text,
        [&](std::string_view part) {
          normal_specials_.split(
              part, [&](std::string_view rest) { splitter_.split(rest, take); }, take_special);
        },
        take_special);
    return;
  }
  std::deque<std::string> normals;  // `known` points into them
  specials_.split(
      text,
      [&](std::string_view part) {
        const std::string& normal = normals.emplace_back(CharacterPieces::normal(part, begins));
        begins = true;  // after a special token a new text begins
        normal_specials_.split(
            normal, [&](std::string_view rest) { characters_->pieces.split(rest, take); }, take_special);
      },
      [&](std::int64_t number) {
        take_special(number);
        begins = true;
      });
}

bool BytePairTokenizer::may_cut(std::string_view text, std::size_t at) const {
  if (characters_ ? text[at] != '\n' && text[at] != '\r' : !splitter_.may_cut(text, at)) return false;
  if (!specials_.may_cut(text, at) || !normal_specials_.may_cut(text, at)) return false;
  if (!characters_) return true;
  if (specials_.ends_at(text, at)) return false;  // after a special token a new text begins
  constexpr std::size_t kLongest = 4;             // bytes of a character
  const std::size_t from = at - std::min(at, kLongest);
  const std::string before = CharacterPieces::normal(text.substr(from, at - from), false);
  return characters_->pieces.may_cut(before + CharacterPieces::normal(text.substr(at, kLongest), false), before.size());
}

std::vector<std::int64_t> BytePairTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  encode(text, tokens);
  return tokens;
}

std::string BytePairTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) text += text_of(token);
  if (characters_ && text.starts_with(' ')) text.erase(0, 1);  // encode() has added it
  return text;
}

std::string BytePairTokenizer::text_of(std::int64_t token) const {
  return token >= 0 && token < size() ? tokens_[static_cast<std::size_t>(token)] : "";
}

std::optional<std::int64_t> BytePairTokenizer::added(std::string_view name) const {
  const auto found = added_.find(name);
  return found == added_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t BytePairTokenizer::count_added(std::span<const std::int64_t> tokens) const {
  return std::ranges::count_if(tokens, [&](std::int64_t token) {
    return token >= 0 && token < std::ssize(is_added_) && is_added_[static_cast<std::size_t>(token)];
  });
}

void BytePairTokenizer::write(const std::filesystem::path& folder) const {
  ZERO_CHECK(!characters_, "{}: only tokenizers over bytes have GPT-2's two files", folder.string());
  if (std::filesystem::exists(folder / "tokenizer.json"))
    throw ConfigError("--learn", folder.string(),
                      "the folder has a tokenizer.json, which would be read instead of these files",
                      "name another folder");
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < tokens_.size(); ++i) vocabulary[to_alphabet(tokens_[i])] = i;
  for (const auto& [name, number] : added_) vocabulary[name] = number;
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : merge_order_) {
    merges += to_alphabet(tokens_[static_cast<std::size_t>(left)]) + ' ' +
              to_alphabet(tokens_[static_cast<std::size_t>(right)]) + '\n';
  }
  const std::array<std::pair<std::filesystem::path, std::string>, 2> files{
      {{folder / "vocab.json", vocabulary.dump()}, {folder / "merges.txt", std::move(merges)}}};
  for (const auto& [path, text] : files)
    if (std::filesystem::exists(path) && read_file(path) != text)
      throw ConfigError("--learn", folder.string(),
                        fmt::format("the folder has another tokenizer: its {} differs", path.filename().string()),
                        "name another folder, or remove the files");
  std::filesystem::create_directories(folder);
  for (const auto& [path, text] : files) write_file(path, text);
}

}  // namespace zero

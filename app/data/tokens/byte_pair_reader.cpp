// BytePairTokenizer::read(): GPT-2's two files, and tokenizer.json of GPT-2's, Llama 3's and Llama 2's form.
#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/strict_json.h"

#include "app/data/tokens/byte_pair_tokenizer.h"

namespace zero {

namespace fs = std::filesystem;

class BytePairTokenizer::Reader {
 public:
  Reader(fs::path path, std::string_view key, Specials specials)
      : path_(std::move(path)), key_(key), specials_(specials) {}

  BytePairTokenizer take() {
    if (tokenizer_.characters_) return std::move(tokenizer_);
    for (int byte = 0; byte < 256; ++byte) {
      if (!tokenizer_.numbers_.contains(std::string(1, static_cast<char>(byte))))
        refuse(fmt::format("no token for byte {}: not a tokenizer over bytes", byte));
    }
    return std::move(tokenizer_);
  }

  void read_vocabulary(const nlohmann::json& json) {
    for_each_token(json, [&](const std::string& name, std::int64_t number) { add_token(name, number); });
  }

  void add_special(const std::string& name, std::int64_t number) {
    if (number < 0 || number > (1 << 24)) refuse(fmt::format("{:?} has number {}", name, number));
    make_room(number);
    tokenizer_.numbers_.erase(tokenizer_.characters_ ? name : tokenizer_.tokens_[static_cast<std::size_t>(number)]);
    tokenizer_.tokens_[static_cast<std::size_t>(number)].clear();
    tokenizer_.added_[name] = number;
    if (number >= std::ssize(tokenizer_.is_added_)) tokenizer_.is_added_.resize(static_cast<std::size_t>(number) + 1);
    tokenizer_.is_added_[static_cast<std::size_t>(number)] = true;
  }

  // GPT-2's two files do not say which names are special in a text. Like transformers, this finds <|endoftext|>.
  void find_end_of_text() {
    constexpr std::string_view kName = "<|endoftext|>";
    const auto found = tokenizer_.added_.find(kName);
    if (found != tokenizer_.added_.end() && specials_ == Specials::kTokens)
      tokenizer_.specials_.add({.name = std::string(kName), .number = found->second});
  }

  void add_merge(std::string_view left, std::string_view right, const std::string& where) {
    const bool of_characters = tokenizer_.characters_.has_value();
    const auto number = [&](const std::string& token) {
      const auto found = tokenizer_.numbers_.find(token);
      if (found == tokenizer_.numbers_.end())
        refuse(fmt::format("{} names the unknown token {:?}", where, of_characters ? token : to_alphabet(token)));
      return found->second;
    };
    const std::string first = of_characters ? std::string(left) : bytes_of(left, where);
    const std::string second = of_characters ? std::string(right) : bytes_of(right, where);
    if (of_characters) tokenizer_.characters_->pieces.add_merge(first, second);
    const std::pair pair{number(first), number(second)};
    const auto rank = static_cast<std::int64_t>(tokenizer_.merge_order_.size());
    tokenizer_.merges_.emplace(pair, Merge{rank, number(first + second)});
    tokenizer_.merge_order_.push_back(pair);
  }

  void read_merges_file(std::string_view text) {
    int line_number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      ++line_number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
      const std::size_t space = line.find(' ');
      const std::string where = fmt::format("line {}", line_number);
      if (space == line.npos || line.find(' ', space + 1) != line.npos) refuse(where + " is not a pair of tokens");
      add_merge(line.substr(0, space), line.substr(space + 1), where);
    }
  }

  void read_tokenizer_json(const nlohmann::json& json) {
    const auto& model = json.contains("model") ? json.at("model") : nlohmann::json();
    if (!model.is_object() || model.value("type", "") != "BPE") refuse("its model is not BPE");
    if (!model.contains("vocab") || !model.contains("merges")) refuse("its model has no vocab or no merges");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      if (is_given(model, key)) refuse(fmt::format("its model has a {}, and zero.cpp does not support it", key));
    }
    if (model.value("byte_fallback", false)) {
      require_characters(json, model);
      read_characters(model.at("vocab"));
    } else {
      if (is_given(json, "normalizer"))
        refuse("its normalizer changes the text before cutting, and zero.cpp does not support that");
      read_splitter(json.contains("pre_tokenizer") ? json.at("pre_tokenizer") : nlohmann::json());
      read_vocabulary(model.at("vocab"));
    }
    int number = 0;
    for (const auto& merge : model.at("merges")) {
      const std::string where = fmt::format("merge {}", ++number);
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), where);
      } else if (merge.is_string()) {
        const auto text = merge.get<std::string>();
        const std::size_t space = text.find(' ');
        if (space == std::string::npos) refuse(where + " is not a pair of tokens");
        add_merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1), where);
      } else {
        refuse(where + " is not a pair of tokens");
      }
    }
    tokenizer_.whole_pieces_first_ = model.value("ignore_merges", false);
    for (const auto& token : json.value("added_tokens", nlohmann::json::array())) {
      if (!token.is_object() || !token.contains("content") || !token.contains("id") || token.at("content") == "")
        refuse("an added token without name");
      add_added(token);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw ConfigError(key_, path_.string(), reason,
                      "name a folder with GPT-2's vocab.json and merges.txt, or with a tokenizer.json of byte pairs");
  }

  std::string bytes_of(std::string_view characters, const std::string& where) const {
    const auto bytes = from_alphabet(characters);
    if (!bytes) refuse(fmt::format("{} has characters that represent no byte", where));
    return *bytes;
  }

  static bool is_given(const nlohmann::json& json, const char* key) {
    return json.contains(key) && !json.at(key).is_null() && json.at(key) != "" && json.at(key) != 0.0;
  }

  // Adds a token of added_tokens. A normalized token is searched in the normalized text.
  void add_added(const nlohmann::json& json) {
    SpecialToken token{.name = json.at("content").get<std::string>(),
                       .number = json.at("id").get<std::int64_t>(),
                       .single_word = json.value("single_word", false),
                       .lstrip = json.value("lstrip", false),
                       .rstrip = json.value("rstrip", false)};
    const bool is_special = json.value("special", false);
    add_special(token.name, token.number);
    if (!is_special) tokenizer_.tokens_[static_cast<std::size_t>(token.number)] = token.name;
    if (specials_ == Specials::kText) return;
    if (!json.value("normalized", !is_special)) return tokenizer_.specials_.add(std::move(token));
    if (tokenizer_.characters_) token.name = CharacterPieces::normal(token.name, /*begins=*/true);
    tokenizer_.normal_specials_.add(std::move(token));
  }

  // Refuses any form but Llama 2's, because others would give other tokens or another text.
  void require_characters(const nlohmann::json& json, const nlohmann::json& model) const {
    constexpr const char* kOnly = "(beside byte_fallback only Llama 2's form is known here)";
    const auto part = [&](const char* name, const char* list) {
      const nlohmann::json whole = json.contains(name) ? json.at(name) : nlohmann::json();
      if (!whole.is_object() || whole.value("type", "") != "Sequence" || !whole.contains(list))
        refuse(fmt::format("its {} is no sequence {}", name, kOnly));
      return whole.at(list);
    };
    const auto require = [&](const char* name, const nlohmann::json& has, const char* wanted) {
      const auto want = nlohmann::json::parse(wanted);
      for (std::size_t i = 0; i < std::max(has.size(), want.size()); ++i) {
        if (i >= has.size()) refuse(fmt::format("its {} lacks {} {}", name, want[i].dump(), kOnly));
        if (i >= want.size() || has[i] != want[i]) refuse(fmt::format("its {} has {} {}", name, has[i].dump(), kOnly));
      }
    };
    require(
        "normalizer", part("normalizer", "normalizers"),
        R"([{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}])");
    require("decoder", part("decoder", "decoders"),
            R"([{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}])");
    if (is_given(json, "pre_tokenizer")) refuse(fmt::format("it has a pre_tokenizer {}", kOnly));
    if (model.value("ignore_merges", false)) refuse(fmt::format("its model has ignore_merges {}", kOnly));
  }

  void read_characters(const nlohmann::json& vocabulary) {
    auto& bytes = tokenizer_.characters_.emplace().bytes;
    bytes.fill(-1);
    for_each_token(vocabulary, [&](const std::string& name, std::int64_t number) {
      make_room(number);
      tokenizer_.tokens_[static_cast<std::size_t>(number)] = CharacterPieces::text_of(name);
      tokenizer_.numbers_.emplace(name, number);
    });
    for (int byte = 0; byte < 256; ++byte) {
      const std::string name = fmt::format("<0x{:02X}>", byte);
      const auto found = tokenizer_.numbers_.find(name);
      if (found == tokenizer_.numbers_.end()) refuse(fmt::format("it falls back to bytes and has no token {}", name));
      bytes[static_cast<std::size_t>(byte)] = found->second;
      tokenizer_.tokens_[static_cast<std::size_t>(found->second)] = std::string(1, static_cast<char>(byte));
      tokenizer_.numbers_.erase(found);  // it is not found in a text, and not a result of a merge
    }
  }

  void for_each_token(const nlohmann::json& json,
                      const std::function<void(const std::string& name, std::int64_t number)>& take) const {
    if (!json.is_object() || json.empty()) refuse("its vocabulary is not an object of tokens");
    constexpr std::int64_t kMostTokens = 1 << 24;
    for (const auto& [name, number] : json.items()) {
      if (!number.is_number_integer() || number.get<std::int64_t>() < 0 || number.get<std::int64_t>() >= kMostTokens)
        refuse(fmt::format("token {:?} has no number from 0 to {}", name, kMostTokens - 1));
      take(name, number.get<std::int64_t>());
    }
  }

  void make_room(std::int64_t number) {
    if (number >= tokenizer_.size()) tokenizer_.tokens_.resize(static_cast<std::size_t>(number) + 1);
  }

  void add_token(const std::string& name, std::int64_t number) {
    const auto bytes = from_alphabet(name);
    if (!bytes || (name.starts_with("<|") && name.ends_with("|>"))) {
      add_special(name, number);
      return;
    }
    make_room(number);
    if (!tokenizer_.numbers_.emplace(*bytes, number).second) refuse(fmt::format("token {:?} occurs twice", name));
    tokenizer_.tokens_[static_cast<std::size_t>(number)] = *bytes;
  }

  // Reads the expression of the file, or uses GPT-2's.
  void read_splitter(const nlohmann::json& json) {
    if (!json.is_object()) refuse("it has no pre_tokenizer that cuts a text");
    const std::string type = json.value("type", "");
    if (type == "ByteLevel") {
      if (json.value("add_prefix_space", false)) refuse("it puts a space before a text (add_prefix_space)");
      return;
    }
    const nlohmann::json steps = json.value("pretokenizers", nlohmann::json::array());
    const bool two = type == "Sequence" && steps.size() == 2 && steps[0].value("type", "") == "Split" &&
                     steps[1].value("type", "") == "ByteLevel" && !steps[1].value("use_regex", true);
    if (!two || !steps[0].contains("pattern") || !steps[0].at("pattern").contains("Regex"))
      refuse(fmt::format("zero.cpp does not support its pre_tokenizer {:?}", type));
    tokenizer_.splitter_ = TextSplitter(steps[0].at("pattern").at("Regex").get<std::string>(), key_, path_.string());
  }

  fs::path path_;
  std::string_view key_;
  Specials specials_;
  BytePairTokenizer tokenizer_;
};

// This file says how a text is cut; GPT-2's two files do not. If it exists, GPT-2's files are ignored.
constexpr const char* kWhole = "tokenizer.json";

fs::path BytePairTokenizer::file_of(const fs::path& folder) {
  const bool of_gpt2 = fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt");
  return folder / (of_gpt2 && !fs::exists(folder / kWhole) ? "vocab.json" : kWhole);
}

BytePairTokenizer BytePairTokenizer::read(const fs::path& folder, std::string_view key, Specials specials) {
  const auto json_of = [&](const fs::path& path) {
    const std::string text = read_file(path);
    try {
      return parse_strictly(text, path.string());
    } catch (const IoError& error) {
      throw ConfigError(key, path.string(), error.what(), "copy the file again");
    }
  };
  const auto reading = [&](const fs::path& path, auto&& body) {
    Reader reader(path, key, specials);
    try {
      body(reader);
    } catch (const nlohmann::json::exception& error) {
      throw ConfigError(key, path.string(), fmt::format("a value of another type: {}", error.what()),
                        "use the file as it was published");
    }
    return reader.take();
  };
  if (fs::exists(folder / kWhole))
    return reading(folder / kWhole, [&](Reader& reader) { reader.read_tokenizer_json(json_of(folder / kWhole)); });
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
    return reading(folder / "merges.txt", [&](Reader& reader) {
      reader.read_vocabulary(json_of(folder / "vocab.json"));
      reader.read_merges_file(read_file(folder / "merges.txt"));
      reader.find_end_of_text();
    });
  }
  throw ConfigError(key, folder.string(), "the folder has neither vocab.json and merges.txt nor tokenizer.json",
                    "name the folder of a tokenizer; `zero tokenize --learn` makes one");
}

}  // namespace zero

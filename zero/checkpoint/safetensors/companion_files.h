// Companion files: what other programs read beside weights and their config.json: a tokenizer's files,
// generation_config.json, classes.json, and the words that a run learned (words.txt).
//
//   copy_tokenizer_files("gpt2", "runs/tuned");       // tokenizer.json, tokenizer_config.json, merges.txt, ...
//   copy_companion_files("runs/tuned", "exported");   // these, and the others
//
// Files keep their bytes. Nothing is copied within one folder. Each returns the copies. Local; throws IoError.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

inline constexpr std::string_view kGenerationConfig = "generation_config.json";
inline constexpr std::string_view kClassesName = "classes.json";
inline constexpr std::string_view kWordsName = "words.txt";
// The files of a tokenizer, as transformers 4 and 5 name them.
inline constexpr std::array<std::string_view, 10> kTokenizerFiles{"tokenizer.json",
                                                                  "tokenizer_config.json",
                                                                  "special_tokens_map.json",
                                                                  "added_tokens.json",
                                                                  "vocab.json",
                                                                  "merges.txt",
                                                                  "vocab.txt",
                                                                  "tokenizer.model",
                                                                  "chat_template.jinja",
                                                                  "chat_template.json"};

// In place of another tokenizer's, whose other files go.
std::vector<std::filesystem::path> copy_tokenizer_files(const std::filesystem::path& from,
                                                        const std::filesystem::path& to);
bool has_tokenizer_files(const std::filesystem::path& folder);
void remove_tokenizer_files(const std::filesystem::path& folder);
// True for the name of any of these files, such as "tokenizer.json" or "classes.json".
bool is_companion_name(std::string_view name);
std::vector<std::filesystem::path> copy_companion_files(const std::filesystem::path& from,
                                                        const std::filesystem::path& to);
// One file, if it is there.
std::vector<std::filesystem::path> copy_companion(std::string_view name, const std::filesystem::path& from,
                                                  const std::filesystem::path& to);

// {"id2label": {"0": "negative"}, "label2id": {"negative": 0}}; bytes that are not UTF-8 are replaced.
std::string classes_json(const std::vector<std::string>& names);
// The names in such a text, in their order; empty: there are none.
std::vector<std::string> names_in_classes_json(std::string_view text);

}  // namespace zero

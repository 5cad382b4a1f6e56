// DeepSpeedReader: takes keys out of DeepSpeed's JSON and makes our keys; no key of the file is forgotten.
//
//   DeepSpeedReader reader(json, "ds_config.json");
//   reader.keep_whole(json, "", "train_batch_size", "train.global_batch");
//   if (const Json* zero = reader.section(json, "zero_optimization")) ...
//   reader.drop_rest(json, "");                      // the keys that were not taken
//   return reader.finish();
//
// A name is a key with its sections: "zero_optimization.stage". A prefix is the part of the name before the key.
//
// Local. Throws ConfigError under "FILE: NAME" for a value of the wrong kind, or a value that our option does not
// allow.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "app/config/deepspeed/deepspeed.h"

namespace zero {

// The values of the file `path`, by kind. `name`: the key, for messages.
class DeepSpeedValues {
 public:
  using Json = nlohmann::json;

  explicit DeepSpeedValues(std::string_view path) : path_(path) {}

  double number(const Json& json, std::string_view name) const;
  std::int64_t whole(const Json& json, std::string_view name) const;  // also written as 1e5
  bool flag(const Json& json, std::string_view name) const;
  std::string text(const Json& json, std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view reason,
                           std::string_view remedy) const;
  std::string_view path() const { return path_; }

 private:
  std::string_view path_;
};

class DeepSpeedReader {
 public:
  using Json = DeepSpeedValues::Json;

  DeepSpeedReader(const Json& json, std::string_view path);

  const Json& json() const { return json_; }
  // Does the file leave a value to Hugging Face's Trainer ("auto")?
  bool is_for_the_trainer() const { return is_for_the_trainer_; }
  // Takes the value of a key; null: there is no value. If the value is "auto" and the Trainer fills in this key,
  // returns the default of the Trainer's argument. Any other "auto" is null. It is also dropped with a reason that
  // names `ours`, except in sections in which DeepSpeed ignores "auto".
  const Json* take(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours);
  const Json* section(const Json& object, std::string_view key, std::string_view prefix = "");

  const DeepSpeedValues& values() const { return values_; }

  // Keeps a value for our key, in place of an earlier value. Throws ConfigError if the option does not allow it.
  void keep(std::string_view ours, const Value& value, std::string_view from);
  void keep_whole(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours);
  // Returns false if the key is absent.
  bool keep_number(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours,
                   std::string_view remark = "");
  // Returns the value that is kept for our key so far; null: none.
  const Value* find(std::string_view ours) const;
  // Keeps a value that is the Trainer's default for `field` of its arguments.
  void assume(std::string_view ours, const Value& value, std::string_view name, std::string_view field);
  // Keeps the Trainer's default for a key that the Trainer fills in, also if the file does not have the key.
  void assume_default(std::string_view name, std::string_view ours);

  void drop(std::string_view name, std::string_view reason);
  void take_and_drop(const Json& object, std::string_view prefix, std::string_view key, std::string_view reason);
  // Drops every key of an object that was not taken and is not switched off.
  void drop_rest(const Json& object, std::string_view prefix);

  ConvertedConfig finish();

 private:
  const Json& json_;
  const DeepSpeedValues values_;
  const bool is_for_the_trainer_;
  ConvertedConfig out_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, Json, std::less<>> assumed_;  // values of keys that are "auto"
};

}  // namespace zero

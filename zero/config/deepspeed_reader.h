// DeepSpeedReader: DeepSpeed's JSON on its way to our keys, so that no key of the file is forgotten.
//
//   DeepSpeedReader reader(json, "ds_config.json");
//   reader.keep_whole(json, "", "train_batch_size", "train.global_batch");
//   if (const Json* zero = reader.section(json, "zero_optimization")) ...
//   reader.drop_rest(json, "");                      // whatever nobody has taken
//   return reader.finish();
//
// A name is a key with its sections: "zero_optimization.stage"; a prefix is what stands before the key. Local; throws
// ConfigError under "FILE: NAME".
#pragma once

#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "zero/config/deepspeed.h"

namespace zero {

class DeepSpeedReader {
 public:
  using Json = nlohmann::json;

  DeepSpeedReader(const Json& json, std::string_view path) : json_(json), path_(path) {}

  const Json& json() const { return json_; }
  // The value under a key. Null where there is none; null, too, for "auto", which is told as a dropped key with the name
  // of our key that needs a value.
  const Json* take(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours);
  const Json* section(const Json& object, std::string_view key, std::string_view prefix = "");

  double number(const Json& json, std::string_view name) const;
  std::int64_t whole(const Json& json, std::string_view name) const;  // also written as 1e5
  bool flag(const Json& json, std::string_view name) const;
  std::string text(const Json& json, std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view reason,
                           std::string_view remedy) const;

  // A value for a key of ours, instead of an earlier one. Throws where the option does not allow it.
  void keep(std::string_view ours, const Value& value, std::string_view from);
  void keep_whole(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours);
  // False where the key is absent or "auto".
  bool keep_number(const Json& object, std::string_view prefix, std::string_view key, std::string_view ours,
                   std::string_view remark = "");
  double kept_number(std::string_view ours, double otherwise) const;

  void drop(std::string_view name, std::string_view reason);
  // Every key of an object that was not taken and is not switched off.
  void drop_rest(const Json& object, std::string_view prefix);

  ConvertedConfig finish();

 private:
  const Json& json_;
  std::string_view path_;
  ConvertedConfig out_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace zero

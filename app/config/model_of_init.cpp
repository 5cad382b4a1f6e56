#include "app/config/model_of_init.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/safetensors/published_config.h"

#include "app/config/options/option.h"
#include "app/config/rules/model_rules.h"
#include "app/train/tasks/model_table.h"

namespace zero {
namespace {

void settle(LoadedConfig& loaded, std::string_view name, const nlohmann::ordered_json& value,
            const std::string& origin) {
  if (loaded.origins.contains(name)) return;
  const std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const Option& option = *find_option(name);
  Value parsed = value.is_string() ? Value(value.get<std::string>()) : parse_value(text);
  set_option(loaded.config, option, {std::string(name), std::move(parsed), text, origin, /*bare=*/false});
  loaded.origins.insert_or_assign(std::string(name), origin);
}

void settle_dropout(LoadedConfig& loaded, PublishedKind kind, const PublishedConfig& published) {
  constexpr std::string_view kKey = "model.dropout";
  const auto dropouts = published_dropouts(kind, published.json);
  if (loaded.origins.contains(kKey) || !model_row(loaded.config.model.name).takes(kKey)) return;
  if (!are_equal(dropouts))
    throw ConfigError("model.init", loaded.config.model.init,
                      fmt::format("{} has {}, and a {} here has one dropout", published.file.string(),
                                  list_of(dropouts), loaded.config.model.name),
                      "set model.dropout");
  settle(loaded, kKey, dropouts.front().value, published.file.string());
}

}  // namespace

void settle_model_of_init(LoadedConfig& loaded) {
  if (loaded.config.model.init.empty()) return;
  const std::optional<PublishedConfig> published = read_published_config(loaded.config.model.init);
  if (!published || !published->kind) return;
  const std::string origin = published->file.string();
  settle(loaded, "model.name", published->kind_name, origin);
  if (loaded.config.model.name != published->kind_name) return;  // opening the weights will refuse it
  for (const PublishedKey& key : published_keys(*published->kind, published->json))
    settle(loaded, key.key, key.value, origin);
  settle_dropout(loaded, *published->kind, *published);
  const auto names = published_classes(published->json);
  if (*published->kind == PublishedKind::kBert && names.size() > 1 && data_reads(loaded.config.data, "data.labels"))
    settle(loaded, "data.labels", names, origin);
}

}  // namespace zero

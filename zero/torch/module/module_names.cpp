#include "zero/torch/module/module_names.h"

#include "zero/base/error/error.h"

namespace zero {
namespace {

void collect(const torch::nn::Module& module, const std::string& prefix,
             const std::function<bool(const torch::nn::Module&)>& wanted, std::vector<std::string>& names) {
  for (const auto& child : module.named_children()) {
    const std::string name = prefix + child.key();
    if (child.value()->parameters().empty()) continue;
    if (wanted(*child.value())) {
      names.push_back(name);
    } else {
      collect(*child.value(), name + ".", wanted, names);
    }
  }
}

}  // namespace

std::vector<std::string> module_names_if(const torch::nn::Module& root,
                                         const std::function<bool(const torch::nn::Module&)>& wanted) {
  std::vector<std::string> names;
  collect(root, "", wanted, names);
  if (names.empty())
    throw ConfigError("units", root.name(), "the predicate selects no module",
                      "leave units out: each repeated block is then a unit");
  return names;
}

std::vector<std::string> module_names(const torch::nn::Module& root,
                                      const std::vector<std::reference_wrapper<const torch::nn::Module>>& wanted) {
  const auto is = [](const torch::nn::Module& module) {
    return [&module](const torch::nn::Module& other) { return &other == &module; };
  };
  std::vector<std::string> names;
  if (wanted.empty())
    throw ConfigError("units", root.name(), "no module is given", "give a module, or leave units out");
  for (const torch::nn::Module& module : wanted) {
    const std::size_t before = names.size();
    collect(root, "", is(module), names);
    if (names.size() == before)
      throw ConfigError("units", module.name(), "this module is not inside the attached module",
                        "name modules that are registered in it and have parameters");
  }
  return names;
}

}  // namespace zero

#include "app/cli/export_companions.h"

#include <algorithm>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/sha256.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecordName = ".zero_export";
constexpr std::size_t kSumLength = 64;  // of a SHA-256 sum in hexadecimal

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// A broken link also takes the name.
bool is_taken(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::string sum_of(const fs::path& file) {
  const std::string bytes = read_file(file);
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw IoError(file.string(), "remove", error.value());
}

ConfigError not_ours(const fs::path& file, std::string_view change) {
  return {"-o", file.string(), fmt::format("no export wrote this file, and it would be {}", change),
          "name another folder, or move that file"};
}

}  // namespace

// A line of the record is "SUM  NAME", as sha256sum writes it.
ExportCompanions::ExportCompanions(fs::path folder) : folder_(std::move(folder)) {
  if (!is_file(folder_ / kRecordName)) return;
  const std::string text = read_file(folder_ / kRecordName);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.size() > kSumLength + 2) sums_[std::string(line.substr(kSumLength + 2))] = line.substr(0, kSumLength);
  }
}

void ExportCompanions::copy(std::string_view name, const fs::path& from) {
  std::error_code ignored;
  if (from.empty() || !is_file(from / name) || fs::equivalent(from, folder_, ignored)) return;
  copies_.emplace_back(name, from / name);
}

void ExportCompanions::remove(std::string_view name) {
  removals_.emplace_back(name);
}

bool ExportCompanions::is_recorded(const std::string& name) const {
  const auto found = sums_.find(name);
  return found != sums_.end() && is_file(folder_ / name) && sum_of(folder_ / name) == found->second;
}

void ExportCompanions::require_free() const {
  for (const auto& [name, source] : copies_) {
    const fs::path file = folder_ / name;
    if (!is_taken(file) || is_recorded(name)) continue;
    if (!is_file(file) || read_file(file) != read_file(source)) throw not_ours(file, "replaced");
  }
  for (const std::string& name : removals_)
    if (is_taken(folder_ / name) && !is_recorded(name)) throw not_ours(folder_ / name, "removed");
}

std::vector<fs::path> ExportCompanions::write() {
  for (const std::string& name : removals_) {
    remove_file(folder_ / name);
    sums_.erase(name);
  }
  std::vector<fs::path> files;
  for (const auto& [name, source] : copies_) {
    std::error_code error;
    fs::copy_file(source, folder_ / name, fs::copy_options::overwrite_existing, error);
    if (error) throw IoError((folder_ / name).string(), "write", error.value());
    sums_[name] = sum_of(folder_ / name);
    files.push_back(folder_ / name);
  }
  std::string text;
  for (const auto& [name, sum] : sums_) text += fmt::format("{}  {}\n", sum, name);
  if (!text.empty())
    write_file(folder_ / kRecordName, text);
  else if (is_file(folder_ / kRecordName))
    remove_file(folder_ / kRecordName);
  return files;
}

}  // namespace zero::cli

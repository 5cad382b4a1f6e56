#include "zero/comm/rendezvous/job_token.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero {
namespace {

constexpr const char* kTokenVariable = "ZERO_TOKEN";
constexpr const char* kTokenFileVariable = "ZERO_TOKEN_FILE";
constexpr std::size_t kFewest = 16, kMost = 4096;
constexpr const char* kRemedy =
    "run `export ZERO_TOKEN=$(openssl rand -hex 32)` once, and give the same value to every machine's environment";

std::string value_of(const GetEnvironment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr ? value : "";
}

// Checks a token. Its value is never part of a message.
std::string require_strong(const char* variable, std::string_view text) {
  const auto is_space = [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  if (text.size() < kFewest || text.size() > kMost || text.find('\n') != std::string_view::npos) {
    throw ConfigError(variable, "(not shown)", fmt::format("must be one line of {} to {} characters", kFewest, kMost),
                      kRemedy);
  }
  return std::string(text);
}

std::string read_token_file(const std::string& path) {
  const auto refuse = [&](std::string_view why, std::string_view remedy) -> ConfigError {
    return {kTokenFileVariable, path, why, remedy};
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw refuse(std::strerror(errno), "name a file of one line that only you may read");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    throw refuse("is not a regular file", "name a file of one line that only you may read");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw refuse(fmt::format("other users may use it (mode {:03o})", info.st_mode & 0777),
                 "run `chmod 600` on the file");
  std::string text(kMost + 2, '\0');
  const ssize_t bytes = ::pread(file.get(), text.data(), text.size(), 0);
  if (bytes < 0) throw refuse(std::strerror(errno), "name a file of one line that only you may read");
  text.resize(static_cast<std::size_t>(bytes));
  return require_strong(kTokenFileVariable, text);
}

}  // namespace

std::string rendezvous_token(const RankEnvironment& ranks, const GetEnvironment& environment) {
  const std::string text = value_of(environment, kTokenVariable), file = value_of(environment, kTokenFileVariable);
  if (!text.empty()) return require_strong(kTokenVariable, text);
  if (!file.empty()) return read_token_file(file);
  if (ranks.world > ranks.local_world && !ranks.agent_run) {
    throw ConfigError(kTokenVariable, "", "is not set, and ranks of several machines meet over the network",
                      fmt::format("{}, or start the ranks with a launcher that passes the environment on", kRemedy));
  }
  return "";
}

}  // namespace zero

#include "zero/comm/flight/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/base/files/strict_json.h"
#include "zero/comm/flight/ring.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "zero flight 3";
constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
constexpr std::size_t kMostFiles = 4096;

std::string file_name(int rank) {
  return fmt::format("rank-{:05}.json", rank);
}

// Returns the rank in a file's name; -1 if the file is no flight file.
int rank_in(const std::string& name) {
  int rank = -1, length = 0;
  const bool fits = name.size() <= 16 && std::sscanf(name.c_str(), "rank-%6d.json%n", &rank, &length) == 1;
  return fits && rank >= 0 && name == file_name(rank) ? rank : -1;
}

// Returns -1 (unknown, none), or a number below `end`.
int index_or_none(const nlohmann::json& json, std::int64_t end, std::string_view what, std::string_view path) {
  if (json.is_number_integer() && json == -1) return -1;
  const std::int64_t value = natural(json, what, path);
  if (value >= end) refuse_json(path, fmt::format("{} is {}, not below {}", what, value, end));
  return static_cast<int>(value);
}

bool boolean(const nlohmann::json& json, std::string_view what, std::string_view path) {
  if (!json.is_boolean()) refuse_json(path, fmt::format("{} is neither true nor false", what));
  return json.get<bool>();
}

FlightEntry parse_entry(const nlohmann::json& json, int world, std::size_t num_groups, std::string_view path) {
  require_keys(
      json, {"number", "collective", "group", "operation", "unit", "bytes", "peer", "began_ns", "ended_ns", "failed"},
      path);
  const auto operation = find_flight_operation(text_of(json["operation"], "an operation", path));
  if (!operation) refuse_json(path, "names an operation that does not exist");
  FlightEntry entry;
  entry.number = static_cast<std::uint64_t>(natural(json["number"], "a number", path));
  entry.collective = static_cast<std::uint64_t>(natural(json["collective"], "a collective", path));
  const std::int64_t group = natural(json["group"], "a group", path);
  if (group > static_cast<std::int64_t>(num_groups))
    refuse_json(path, "has an entry for a group that it does not list");
  entry.group = static_cast<int>(group);
  entry.call = {.operation = *operation,
                .unit = index_or_none(json["unit"], std::int64_t{1} << 31, "a unit", path),
                .bytes = static_cast<std::uint64_t>(natural(json["bytes"], "bytes", path)),
                .peer = index_or_none(json["peer"], world, "a peer", path)};
  entry.began_ns = natural(json["began_ns"], "began_ns", path);
  entry.ended_ns = natural(json["ended_ns"], "ended_ns", path);
  entry.failed = boolean(json["failed"], "failed", path);
  return entry;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  const fs::path run = absolute.parent_path();
  if (run.has_parent_path()) fs::create_directories(run.parent_path(), error);
  if (!error) error = make_private_folder(run);  // a run that fails early has no folder yet
  if (!error) error = make_private_folder(absolute);
  if (error) throw IoError(folder.native(), "create", error.value());
}

std::string read_untrusted(const fs::path& path) {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw IoError(path.native(), "look at", errno);
  if (!S_ISREG(info.st_mode)) throw IoError(path.native(), "read", 0, "is not a regular file");
  if (info.st_size > kMostBytes) throw IoError(path.native(), "read", 0, "is too large for a flight file");
  return read_at_most(file.get(), static_cast<std::size_t>(info.st_size), path.native());
}

}  // namespace

// Writes one line for each entry, for people who read the file.
std::string flight_json(const FlightRecord& record) {
  const FlightIdentity& who = record.identity;
  const Json head{{"format", kFormat},
                  {"rank", who.rank},
                  {"world", who.world},
                  {"run", who.run},
                  {"restart", who.restart},
                  {"host", who.host},
                  {"process", who.process},
                  {"started_ns", record.started_ns},
                  {"written_ns", record.written_ns},
                  {"step", record.step.value_or(-1)},
                  {"reason", record.cause.reason},
                  {"blamed", record.cause.blamed},
                  {"waited_ns", record.cause.waited_ns},
                  {"unreadable", record.num_unreadable},
                  {"groups", record.groups}};
  std::string text = dump(head);
  text.back() = ',';
  text += "\n\"entries\": [";
  std::string_view separator = "\n";
  for (const FlightEntry& entry : record.entries) {
    text += separator;
    text += dump({{"number", entry.number},
                  {"collective", entry.collective},
                  {"group", entry.group},
                  {"operation", name_of(entry.call.operation)},
                  {"unit", entry.call.unit},
                  {"bytes", entry.call.bytes},
                  {"peer", entry.call.peer},
                  {"began_ns", entry.began_ns},
                  {"ended_ns", entry.ended_ns},
                  {"failed", entry.failed}});
    separator = ",\n";
  }
  return text + "\n]}\n";
}

FlightRecord parse_flight(std::string_view text, std::string_view path) {
  if (std::ssize(text) > kMostBytes) refuse_json(path, "is too large for a flight file");
  const nlohmann::json json = parse_strictly(text, path);
  require_keys(json,
               {"format", "rank", "world", "run", "restart", "host", "process", "started_ns", "written_ns", "step",
                "reason", "blamed", "waited_ns", "unreadable", "groups", "entries"},
               path);
  if (text_of(json["format"], "format", path) != kFormat) refuse_json(path, "has another format");
  FlightRecord record;
  const int world = index_or_none(json["world"], kMostFlightRanks + 1, "world", path);
  if (world < 1) refuse_json(path, "has a world without ranks");
  const int rank = index_or_none(json["rank"], world, "rank", path);
  if (rank < 0) refuse_json(path, "belongs to no rank");
  record.identity = {.rank = rank,
                     .world = world,
                     .run = text_of(json["run"], "run", path),
                     .restart = index_or_none(json["restart"], std::int64_t{1} << 31, "restart", path),
                     .host = text_of(json["host"], "host", path),
                     .process = natural(json["process"], "process", path)};
  record.started_ns = natural(json["started_ns"], "started_ns", path);
  record.written_ns = natural(json["written_ns"], "written_ns", path);
  if (json["step"] != -1) record.step = natural(json["step"], "step", path);
  record.cause = {.reason = text_of(json["reason"], "reason", path),
                  .blamed = index_or_none(json["blamed"], world, "blamed", path),
                  .waited_ns = natural(json["waited_ns"], "waited_ns", path)};
  record.num_unreadable = static_cast<std::uint64_t>(natural(json["unreadable"], "unreadable", path));
  for (const auto& group : array_of(json["groups"], "groups", path)) {
    record.groups.push_back(text_of(group, "a group", path));
    if (record.groups.back().empty() || record.groups.back().size() > 3 * kFlightGroupText ||
        record.groups.size() > kMostFlightGroups)
      refuse_json(path, "has groups that ranks never write");
  }
  std::uint64_t number = 0;
  std::array<std::uint64_t, kMostFlightGroups + 1> collectives{};
  for (const auto& entry : array_of(json["entries"], "entries", path)) {
    record.entries.push_back(parse_entry(entry, world, record.groups.size(), path));
    const FlightEntry& last = record.entries.back();
    std::uint64_t& collective = collectives.at(static_cast<std::size_t>(last.group));
    if (is_message(last.call.operation) != (last.collective == 0))
      refuse_json(path, "has a message with a number, or a collective without a number");
    if (last.number <= number || (last.collective != 0 && last.collective <= collective))
      refuse_json(path, "has entries out of order");
    number = last.number;
    collective = std::max(collective, last.collective);
  }
  return record;
}

fs::path write_flight(const fs::path& folder, std::span<const std::byte> ring, const FlightCause& cause) {
  std::optional<FlightRecord> record = read_ring(ring);
  if (!record) return {};
  ZERO_CHECK(cause.blamed >= -1 && cause.blamed < record->identity.world, "rank {} is blamed in a world of {}",
             cause.blamed, record->identity.world);
  record->cause = cause;
  make_folder(folder);
  fs::path path = folder / file_name(record->identity.rank);
  write_file(path, flight_json(*record), {.durable = false, .mode = S_IRUSR | S_IWUSR});
  return path;
}

FlightFolder read_flight_folder(const fs::path& folder) {
  std::vector<std::pair<int, fs::path>> files;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (const int rank = rank_in(entry->path().filename().string()); rank >= 0) files.emplace_back(rank, entry->path());
  }
  if (error) throw IoError(folder.native(), "list", error.value());
  if (files.size() > kMostFiles) throw IoError(folder.native(), "list", 0, "holds more flight files than are read");
  std::ranges::sort(files);
  FlightFolder found;
  for (const auto& [rank, path] : files) {
    try {
      found.records.push_back(parse_flight(read_untrusted(path), path.native()));
      if (const int said = found.records.back().identity.rank; said != rank) {
        found.records.pop_back();
        refuse_json(path.native(), fmt::format("belongs to rank {}", said));
      }
    } catch (const IoError& damage) {
      found.damaged.emplace_back(damage.what());
    }
  }
  return found;
}

}  // namespace zero

#include "zero/comm/transport/record_flight.h"

#include <array>
#include <charconv>
#include <new>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/process/memory_file.h"
#include "zero/base/process/pages.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/launcher/launcher_memory.h"

namespace zero {
namespace {

constexpr const char* kCapacity = "TORCH_NCCL_TRACE_BUFFER_SIZE";

// Returns nothing for text that is not a whole number from 0 to `most`.
std::optional<std::size_t> number_in(std::string_view text, std::size_t most) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::size_t flight_capacity(const GetEnvironment& environment) {
  const char* const text = environment(kCapacity);
  if (text == nullptr) return kFlightCapacity;
  const auto capacity = number_in(text, kMostFlightCapacity);
  if (!capacity) {
    throw ConfigError(kCapacity, text, "not a number of collectives for a flight record",
                      fmt::format("allowed: 0 (none) to {}", kMostFlightCapacity));
  }
  return *capacity;
}

std::filesystem::path flight_folder(const GetEnvironment& environment, const std::filesystem::path& otherwise) {
  const char* const folder = environment("ZERO_FLIGHT_DIR");
  return folder != nullptr && *folder != '\0' ? std::filesystem::path(folder) : otherwise;
}

Allocation flight_memory(std::size_t capacity) {
  if (capacity == 0) return {};
  Allocation pages = map_private(FlightRing::bytes(capacity));
  if (!pages) throw std::bad_alloc();
  return pages;
}

Allocation flight_memory(std::size_t capacity, int rank, const GetEnvironment& environment) {
  std::optional<LauncherMemory> memory = capacity > 0 ? LauncherMemory::of_environment(environment) : std::nullopt;
  if (!memory) return flight_memory(capacity);
  const FileDescriptor file = make_memory_file("zero.cpp flight", FlightRing::bytes(capacity));
  Allocation shared = map_memory_file(file.get(), FlightRing::bytes(capacity), true);
  try {
    memory->put(fmt::format("{}rank-{:05}", kFlightNames, rank), file.get());
  } catch (const Error& error) {  // training can go on without it
    ZERO_LOG(warn, "this rank's flight record is not held by the launcher: {}", error.what());
  }
  return shared;
}

std::unique_ptr<RecordedCommunicator> record_flight(std::unique_ptr<Communicator>& communicator, const std::string& run,
                                                    const GetEnvironment& environment) {
  if (communicator->world() == 1) return nullptr;
  Allocation memory = flight_memory(flight_capacity(environment), communicator->rank(), environment);
  if (!memory) return nullptr;
  const char* const restart = environment("TORCHELASTIC_RESTART_COUNT");
  const FlightIdentity identity{
      .rank = communicator->rank(),
      .world = communicator->world(),
      .run = run,
      .restart = static_cast<int>(number_in(restart != nullptr ? restart : "", 1 << 30).value_or(0)),
      .host = host_name(),
      .process = ::getpid(),
  };
  auto recorded = std::make_unique<RecordedCommunicator>(std::move(communicator), std::move(memory), identity);
  recorded->write_on_failure(flight_folder(environment));
  // A launcher that keeps memory for its ranks knows this folder, and names it once.
  if (environment("ZERO_LAUNCHER_MEMORY") != nullptr && !flight_folder(environment).empty())
    recorded->leave_report_to_launcher();
  return recorded;
}

}  // namespace zero

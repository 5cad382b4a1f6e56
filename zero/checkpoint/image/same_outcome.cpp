#include "zero/checkpoint/image/same_outcome.h"

#include <exception>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {

void require_same_outcome(Communicator& comm, const std::string& path, const std::string& failure) {
  const auto failures = all_gather_text(comm, failure);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) throw IoError(path, "checkpoint", 0, fmt::format("rank {}: {}", rank, failures[rank]));
  }
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void require_same_outcome(Communicator& comm, const std::string& path, const std::function<void()>& body) {
  std::exception_ptr own;
  std::string failure;
  try {
    body();
  } catch (const CommError&) {
    throw;  // the other ranks are gone, or will also time out
  } catch (const std::exception& error) {
    own = std::current_exception();
    failure = error.what();
  }
  try {
    require_same_outcome(comm, path, failure);
  } catch (const IoError&) {
    if (own == nullptr) throw;
  }
  if (own != nullptr) std::rethrow_exception(own);
}

void require_same_failure(Communicator& comm, const std::string& path, const std::function<void()>& body) {
  std::exception_ptr bug;
  const std::string failure = failure_of([&] {
    try {
      body();
    } catch (const InternalError&) {
      bug = std::current_exception();
      throw;
    }
  });
  try {
    require_same_outcome(comm, path, failure);
  } catch (const IoError&) {
    if (bug == nullptr) throw;
  }
  if (bug != nullptr) std::rethrow_exception(bug);
}

}  // namespace zero

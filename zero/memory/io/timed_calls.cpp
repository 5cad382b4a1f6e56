#include "zero/memory/io/timed_calls.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>

#include "zero/base/files/file.h"
#include "zero/base/process/signals_blocked.h"

namespace zero {
namespace {

struct Answer {
  std::mutex mutex{};
  std::condition_variable given{};
  bool is_given = false;
  bool left = false;  // nobody waits any more
  ssize_t result = 0;
};

// Runs `call` on a thread with a time limit. `call` must own its data. `too_late` receives a result that nobody takes.
ssize_t within(std::chrono::milliseconds limit, std::function<ssize_t()> call,
               std::function<void(ssize_t)> too_late = {}) {
  const auto answer = std::make_shared<Answer>();
  try {
    const SignalsBlocked blocked;
    std::thread([answer, call = std::move(call), too_late = std::move(too_late)]() mutable {
      const ssize_t result = call();
      call = nullptr;  // frees its descriptor before the caller continues
      std::unique_lock lock(answer->mutex);
      answer->result = result;
      answer->is_given = true;
      const bool left = answer->left;
      lock.unlock();
      answer->given.notify_one();
      if (left && too_late) too_late(result);
    }).detach();
  } catch (const std::system_error& error) {
    return -error.code().value();
  }
  std::unique_lock lock(answer->mutex);
  if (answer->given.wait_for(lock, limit, [&] { return answer->is_given; })) return answer->result;
  answer->left = true;
  return -ETIMEDOUT;
}

// As `within`, with a duplicate descriptor: a late call must not hit another file that has the same number.
template <typename Call>
ssize_t within(std::chrono::milliseconds limit, const FileCalls& calls, int fd, Call call) {
  const int duplicate = calls.duplicate(fd);
  if (duplicate < 0) return duplicate;
  return within(limit, [own = std::make_shared<FileDescriptor>(duplicate), call] { return call(own->get()); });
}

}  // namespace

int TimedCalls::try_folder(const std::string& folder) const {
  return static_cast<int>(within(limit_, [&calls = calls_, folder] { return calls.try_folder(folder); }));
}

int TimedCalls::find_room(const std::string& folder, Room& room) const {
  const auto found = std::make_shared<Room>();
  const ssize_t result = within(limit_, [&calls = calls_, folder, found] { return calls.find_room(folder, *found); });
  if (result >= 0) room = *found;
  return static_cast<int>(result);
}

int TimedCalls::open(const std::string& path, int flags) const {
  const auto close_it = [](ssize_t fd) {
    if (fd >= 0) FileDescriptor(static_cast<int>(fd));
  };
  return static_cast<int>(within(
      limit_, [&calls = calls_, path, flags] { return calls.open(path, flags); }, close_it));
}

int TimedCalls::unlink(const std::string& path) const {
  return static_cast<int>(within(limit_, [&calls = calls_, path] { return calls.unlink(path); }));
}

int TimedCalls::is_in_memory(int fd) const {
  return static_cast<int>(within(limit_, calls_, fd, [&calls = calls_](int own) { return calls.is_in_memory(own); }));
}

int TimedCalls::preallocate(int fd, std::int64_t bytes) const {
  return static_cast<int>(
      within(10 * limit_, calls_, fd, [&calls = calls_, bytes](int own) { return calls.preallocate(own, bytes); }));
}

int TimedCalls::resize(int fd, std::int64_t bytes) const {
  return static_cast<int>(
      within(10 * limit_, calls_, fd, [&calls = calls_, bytes](int own) { return calls.resize(own, bytes); }));
}

int TimedCalls::set_direct(int fd, bool direct) const {
  return static_cast<int>(
      within(limit_, calls_, fd, [&calls = calls_, direct](int own) { return calls.set_direct(own, direct); }));
}

ssize_t TimedCalls::read(int fd, std::span<std::byte> into, std::int64_t offset) const {
  // A hanging read may continue after its caller's memory is reused, so it gets its own memory with the same alignment.
  constexpr std::size_t kPage = 4096;
  const auto own = std::make_shared<std::vector<std::byte>>(into.size() + kPage);
  void* begin = own->data();
  std::size_t space = own->size();
  std::align(kPage, into.size(), begin, space);
  const std::span aligned{static_cast<std::byte*>(begin), into.size()};
  const ssize_t result = within(limit_, calls_, fd, [&calls = calls_, own, aligned, offset](int file) {
    return calls.read(file, aligned, offset);
  });
  if (result > 0) std::copy_n(aligned.begin(), result, into.begin());
  return result;
}

}  // namespace zero

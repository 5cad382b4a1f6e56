#include "zero/memory/disk/disk_requests.h"

#include <cerrno>
#include <thread>

#include "zero/base/error/check.h"
#include "zero/base/process/clock.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPageSize = 4096;
constexpr int kMaxIdle = 8;  // limit of consecutive answers that move less than a page: probably the file ends there
constexpr milliseconds kLongestGrace{1000};

milliseconds until(std::chrono::steady_clock::time_point end) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now()));
}

Activity activity_of(IoOperation operation) {
  return operation == IoOperation::kRead ? Activity::kDiskRead : Activity::kDiskWrite;
}

bool overlap(const DiskRequest& a, const DiskRequest& b) {
  return a.file == b.file && a.offset < b.offset + static_cast<std::int64_t>(b.memory.size()) &&
         b.offset < a.offset + static_cast<std::int64_t>(a.memory.size());
}

}  // namespace

DiskRequests::DiskRequests(std::unique_ptr<IoQueue> queue, Options options)
    : queue_(std::move(queue)), options_(std::move(options)), slots_(static_cast<std::size_t>(options_.depth)) {}

DiskRequests::~DiskRequests() {
  for (const Slot& slot : slots_) {
    while (slot.account != nullptr) advance();
  }
}

bool DiskRequests::full() const {
  return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.in_kernel; });
}

void DiskRequests::make_room() {
  while (!broken_ && full()) advance();
}

void DiskRequests::start(const DiskRequest& request, Account& account) {
  require_apart(request);
  make_room();
  if (broken_) {
    if (!account.error) account.error = broken_;
    return;
  }
  ++account.open;
  Slot* const slot = free_slot();
  *slot = {.request = request,
           .account = &account,
           .deadline = Clock::now() + options_.timeout,
           .span = TimedSpan(options_.timeline, activity_of(request.operation), request.unit,
                             static_cast<std::int64_t>(request.memory.size()))};
  submit(*slot);
}

void DiskRequests::wait(const Account& account) {
  while (account.open > 0) advance();
}

void DiskRequests::poll() {
  while (reap(milliseconds(0)) > 0) {
  }
}

int DiskRequests::num_under_way() const {
  return num_in_kernel_;
}

double DiskRequests::busy_seconds() const {
  return busy_seconds_ + (num_in_kernel_ > 0 ? monotonic_seconds() - busy_since_ : 0);
}

IoError DiskRequests::error_of(const DiskRequest& request, int error_number, std::string_view detail) const {
  return IoError(
      options_.folders[static_cast<std::size_t>(request.file)],
      fmt::format("{} of {} bytes at {}", request.operation == IoOperation::kRead ? "read" : "write",
                  format_count(static_cast<std::int64_t>(request.memory.size())), format_count(request.offset)),
      error_number, detail, request.unit);
}

IoError DiskRequests::no_answer(const DiskRequest& request) const {
  return error_of(request, 0,
                  fmt::format("no answer for {} s", std::chrono::duration<double>(options_.timeout).count()));
}

DiskRequests::Slot* DiskRequests::free_slot() {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& each) { return !each.in_kernel; });
  return slot == slots_.end() ? nullptr : &*slot;
}

// Two overlapping writes, or a read and a write, would leave undefined content.
void DiskRequests::require_apart(const DiskRequest& request) const {
  for (const Slot& slot : slots_) {
    if (!slot.in_kernel || !overlap(slot.request, request)) continue;
    const bool reads = slot.request.operation == IoOperation::kRead && request.operation == IoOperation::kRead;
    ZERO_CHECK(reads, "{} while {} is under way", error_of(request, 0).what(), error_of(slot.request, 0).what());
  }
}

void DiskRequests::submit(Slot& slot) {
  slot.in_kernel = true;
  const int error = queue_->submit({.operation = slot.request.operation,
                                    .file = slot.request.file,
                                    .offset = slot.request.offset + static_cast<std::int64_t>(slot.moved),
                                    .memory = slot.request.memory.subspan(slot.moved),
                                    .tag = static_cast<std::uint64_t>(&slot - slots_.data())});
  if (error == 0) {
    if (num_in_kernel_++ == 0) busy_since_ = monotonic_seconds();
    return;
  }
  slot.in_kernel = false;
  close(slot, error_of(slot.request, error, "the request was refused"));
}

// Waits until an answer arrives or a request is late.
void DiskRequests::advance() {
  auto earliest = Clock::time_point::max();
  for (const Slot& slot : slots_) {
    if (slot.account != nullptr) earliest = std::min(earliest, slot.deadline);
  }
  if (earliest == Clock::time_point::max()) return;  // nobody waits for any request
  // An answer that has already arrived is never late, even if nobody has asked for it for long.
  if (reap(milliseconds(0)) != 0 || reap(until(earliest)) != 0) return;
  if (Clock::now() >= earliest) call_off_late();
}

// Returns the number of answers taken, or -1 if the queue is broken.
int DiskRequests::reap(milliseconds wait) {
  std::array<IoAnswer, 64> answers;
  const int count = queue_->reap(answers, wait);
  if (count < 0) {
    broken_ = IoError(options_.folders.front(), fmt::format("wait for {}", queue_->name()), -count);
    for (Slot& slot : slots_) {
      if (slot.account != nullptr) close(slot, broken_);
    }
    return -1;
  }
  for (const IoAnswer& answer : std::span(answers).first(static_cast<std::size_t>(count))) take(answer);
  return count;
}

void DiskRequests::take(const IoAnswer& answer) {
  ZERO_CHECK(answer.tag < slots_.size() && slots_[answer.tag].in_kernel, "an answer to no request: {}", answer.tag);
  Slot& slot = slots_[answer.tag];
  slot.in_kernel = false;
  if (--num_in_kernel_ == 0) busy_seconds_ += monotonic_seconds() - busy_since_;
  if (slot.account == nullptr) return;  // given up before
  // Nobody may have asked for the first answer for a long time, so the rest of the request gets the full time again.
  if (answer.result != -ECANCELED && !std::exchange(slot.answered, true))
    slot.deadline = Clock::now() + options_.timeout;
  const std::size_t bytes = slot.request.memory.size();
  // ECANCELED: cancelled, or the submitting thread has ended.
  if (answer.result == -EINTR || answer.result == -EAGAIN || answer.result == -ECANCELED)
    return retry(slot, static_cast<int>(-answer.result));
  if (answer.result < 0) return close(slot, error_of(slot.request, static_cast<int>(-answer.result)));
  const std::size_t moved = slot.moved + static_cast<std::size_t>(answer.result);
  ZERO_CHECK(moved <= bytes, "{} of {} bytes moved", moved, bytes);
  if (moved == bytes) {
    (slot.request.operation == IoOperation::kRead ? read_bytes_ : written_bytes_) += static_cast<std::int64_t>(bytes);
    return close(slot, options_.inspect ? options_.inspect(slot.request) : std::nullopt);
  }
  // A partly moved page is moved again from its start.
  const bool idle = moved / kPageSize == slot.moved / kPageSize;
  slot.num_idle = idle ? slot.num_idle + 1 : 0;
  slot.moved = moved / kPageSize * kPageSize;
  if (slot.num_idle == kMaxIdle)
    return close(
        slot, error_of(slot.request, EIO,
                       fmt::format("only the first {} can be moved", format_count(static_cast<std::int64_t>(moved)))));
  submit(slot);
}

void DiskRequests::retry(Slot& slot, int error_number) {
  if (Clock::now() >= slot.deadline)
    return close(slot, error_number == ECANCELED ? no_answer(slot.request)
                                                 : error_of(slot.request, error_number, "again and again"));
  // The kernel lacks a resource: retrying without a pause would not free it.
  if (error_number == EAGAIN) std::this_thread::sleep_for(milliseconds(1));
  submit(slot);
}

void DiskRequests::close(Slot& slot, std::optional<IoError> error) {
  Account& account = *slot.account;
  slot.account = nullptr;
  slot.span.end();
  --account.open;
  if (error && !account.error) account.error = std::move(error);
}

void DiskRequests::call_off_late() {
  const auto now = Clock::now();
  const auto late = [&](const Slot& slot) { return slot.account != nullptr && slot.deadline <= now; };
  for (std::size_t tag = 0; tag < slots_.size(); ++tag) {
    if (late(slots_[tag])) queue_->cancel(tag);
  }
  const auto grace_end = now + std::min(options_.timeout, kLongestGrace);
  do {  // at least once: an answer may have arrived while this process was stopped
    if (reap(until(grace_end)) < 0) return;
  } while (std::any_of(slots_.begin(), slots_.end(), late) && Clock::now() < grace_end);
  for (Slot& slot : slots_) {
    if (!late(slot)) continue;
    broken_ = no_answer(slot.request);
    close(slot, broken_);
  }
}

}  // namespace zero

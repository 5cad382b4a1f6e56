#include "app/cli/bench/parts/disk_probe.h"

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>
#include <utility>

#include <liburing.h>
#include <unistd.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/random_bytes.h"
#include "zero/memory/account/host_memory.h"

namespace zero::cli {
namespace {

void require(std::int64_t result, const ScratchFile& file) {
  if (result == DiskProbe::kStripeBytes) return;
  throw IoError(file.folder(), "a probe's stripe", result < 0 ? static_cast<int>(-result) : 0,
                fmt::format("{} bytes moved", std::max<std::int64_t>(result, 0)));
}

struct Ring {
  explicit Ring(unsigned entries) : refused(io_uring_queue_init(entries, &kernel, 0) != 0) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (!refused) io_uring_queue_exit(&kernel);
  }

  io_uring kernel{};
  bool refused;
};

}  // namespace

void fill_randomly(std::span<std::byte> memory) {
  std::mt19937_64 random(random_number());
  for (; memory.size() >= sizeof(std::uint64_t); memory = memory.subspan(sizeof(std::uint64_t))) {
    const std::uint64_t word = random();
    std::memcpy(memory.data(), &word, sizeof(word));
  }
}

Allocation DiskProbe::random_stripes(int depth) {
  ZERO_CHECK(depth > 0, "depth {}", depth);
  Allocation stripes = allocate_host(static_cast<std::size_t>(depth * kStripeBytes));
  fill_randomly(stripes.bytes());
  return stripes;
}

DiskProbe::DiskProbe(const std::vector<std::string>& folders, std::int64_t bytes, Allocation stripes)
    : num_stripes_(bytes / kStripeBytes),
      depth_(static_cast<int>(static_cast<std::int64_t>(stripes.size()) / kStripeBytes)),
      memory_(std::move(stripes)) {
  ZERO_CHECK(depth_ > 0 && bytes > 0 && bytes % kStripeBytes == 0, "{} bytes, depth {}", bytes, depth_);
  const auto num_files = static_cast<std::int64_t>(folders.size());
  for (const std::string& folder : folders)
    files_.emplace_back(folder, (num_stripes_ + num_files - 1) / num_files * kStripeBytes);
}

std::string DiskProbe::name() const {
  return Ring(1).refused ? "threads" : "io_uring";
}

// Way::kBoth alternates reads and writes. A write uses a stripe that is half a file away from the read.
DiskProbe::Request DiskProbe::request(Way way, std::int64_t number) const {
  const auto num_files = static_cast<std::int64_t>(files_.size());
  const bool write = way == Way::kWrite || (way == Way::kBoth && number % 2 == 1);
  std::int64_t stripe = way == Way::kBoth ? number / 2 : number;
  if (way == Way::kBoth && write) stripe = (stripe + num_stripes_ / 2) % num_stripes_;
  return {.file = &files_[static_cast<std::size_t>(stripe % num_files)],
          .offset = stripe / num_files * kStripeBytes,
          .write = write};
}

void DiskProbe::move(Way way) {
  Ring ring(static_cast<unsigned>(depth_));
  ring.refused ? move_with_threads(way) : move_with_uring(ring.kernel, way);
}

void DiskProbe::move_with_uring(io_uring& ring, Way way) {
  std::vector<const ScratchFile*> of_slot(static_cast<std::size_t>(depth_));
  const auto start = [&](std::int64_t number, std::uint64_t slot) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring);
    const Request request = this->request(way, number);
    std::byte* const data = memory_.data() + slot * kStripeBytes;
    const auto offset = static_cast<__u64>(request.offset);
    of_slot[slot] = request.file;
    request.write ? io_uring_prep_write(entry, request.file->get(), data, kStripeBytes, offset)
                  : io_uring_prep_read(entry, request.file->get(), data, kStripeBytes, offset);
    io_uring_sqe_set_data64(entry, slot);
    if (const int result = io_uring_submit(&ring); result < 0) throw IoError(request.file->folder(), "submit", -result);
  };
  std::int64_t next = 0;
  for (; next < std::min<std::int64_t>(depth_, num_requests(way)); ++next)
    start(next, static_cast<std::uint64_t>(next));
  for (std::int64_t done = 0; done < num_requests(way); ++done) {
    io_uring_cqe* answer = nullptr;
    int result;
    do result = io_uring_wait_cqe(&ring, &answer);
    while (result == -EINTR);
    if (result < 0) throw IoError(files_.front().folder(), "wait", -result);
    const std::uint64_t slot = io_uring_cqe_get_data64(answer);
    require(answer->res, *of_slot[slot]);
    io_uring_cqe_seen(&ring, answer);
    if (next < num_requests(way)) start(next++, slot);
  }
}

void DiskProbe::move_with_threads(Way way) {
  struct Bad {
    std::int64_t result = kStripeBytes;
    const ScratchFile* file = nullptr;
  };
  std::atomic<std::int64_t> next{0};
  std::vector<Bad> bad(static_cast<std::size_t>(depth_));  // of each thread: the last request without a whole stripe
  {
    std::vector<std::jthread> threads;
    for (int slot = 0; slot < depth_; ++slot) {
      threads.emplace_back([&, slot, data = memory_.data() + slot * kStripeBytes] {
        for (std::int64_t number; (number = next.fetch_add(1)) < num_requests(way);) {
          const Request request = this->request(way, number);
          const ssize_t result = request.write ? ::pwrite(request.file->get(), data, kStripeBytes, request.offset)
                                               : ::pread(request.file->get(), data, kStripeBytes, request.offset);
          if (result != kStripeBytes)
            bad[static_cast<std::size_t>(slot)] = {.result = result < 0 ? -errno : result, .file = request.file};
        }
      });
    }
  }
  for (const Bad& each : bad)
    if (each.file != nullptr) require(each.result, *each.file);
}

}  // namespace zero::cli

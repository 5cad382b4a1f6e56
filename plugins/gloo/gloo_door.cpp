#include "plugins/gloo/gloo_door.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <gloo/transport/pair.h>

#include "plugins/gloo/any_time.h"
#include "plugins/gloo/mesh.h"
#include "plugins/gloo/no_broken_pipes.h"

namespace zero_gloo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostOfAMeeting{30000};  // limit of each wait in the store for a process that has already come
constexpr milliseconds kConnecting{2000};       // limit of the Mesh

std::vector<char> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<char>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string key_of_peers(const Replacement& replacement) {
  return replacement.text() + "/peers";
}

std::string key_of_newest(int rank) {
  return "newest/" + std::to_string(rank);
}

}  // namespace

GlooDoor::KeptRequest::KeptRequest(const zero::LinkRequest& from)
    : address(from.address), run_id(from.run_id), token(from.token), request(from) {
  request.address = address.c_str();
  request.run_id = run_id.c_str();
  request.token = token.c_str();
  request.interface = "";
  request.rendezvous_point = nullptr;  // it may be destroyed
}

GlooDoor::GlooDoor(const zero::LinkRequest& request, std::unique_ptr<StoreServer> server,
                   std::shared_ptr<gloo::transport::Device> device, std::shared_ptr<gloo::Context> mesh)
    : kept_(request), device_(std::move(device)), mesh_(std::move(mesh)), server_(std::move(server)) {}

void GlooDoor::come(std::unique_ptr<RendezvousStore> store) {
  const Replacement replacement{.rank = kept_.request.rank, .number = kept_.request.replacement};
  store_ = std::move(store);
  store_->come(replacement);
  std::istringstream peers(text_of(store_->get(key_of_peers(replacement), "", kAnyTime)));
  for (int peer = 0; peers >> peer;) ways_[peer] = {connect(*store_, replacement, peer), 0};
}

GlooDoor::Way GlooDoor::way_to(int rank) const {
  const auto met = ways_.find(rank);
  return met != ways_.end() ? met->second : Way{mesh_, rank};
}

void GlooDoor::abandon() {
  if (server_ != nullptr) server_->abandon();
}

bool GlooDoor::is_waiting(int rank) {
  const std::optional<Replacement> replacement = server_ == nullptr ? std::nullopt : server_->replacement(rank);
  if (!replacement || replacement->number <= introduced_[rank]) return false;
  waiting_[rank] = *replacement;
  return true;
}

void GlooDoor::introduce(int rank, std::span<const int> peers) {
  const Replacement replacement = waiting_.at(rank);
  introduced_[rank] = replacement.number;
  std::string text;
  for (const int peer : peers) text += std::to_string(peer) + " ";
  server_->set(key_of_newest(rank), bytes_of(replacement.text()));
  server_->set(key_of_peers(replacement), bytes_of(text));
}

bool GlooDoor::meet(int rank) {
  const NoBrokenPipes guard;
  try {
    close_way_to(rank);
    RendezvousStore store(kept_.request, std::min(milliseconds(kept_.request.timeout_ms), kMostOfAMeeting));
    const std::optional<Replacement> replacement = Replacement::parse(text_of(store.get(key_of_newest(rank))));
    if (!replacement) throw StoreError("rank 0 has no new process for it", 0);
    ways_[rank] = {connect(store, *replacement, kept_.request.rank), 1};
    return true;
  } catch (const std::exception& error) {
    why_ = error.what();
    return false;
  }
}

// Each side stores its addresses under its place.
std::shared_ptr<gloo::Context> GlooDoor::connect(RendezvousStore& store, const Replacement& replacement, int peer) {
  const int place = peer == kept_.request.rank ? 0 : 1;
  const std::string prefix = replacement.text() + "/" + std::to_string(peer) + "/";
  auto pair = std::make_shared<Mesh>(device_, place, 2, std::min(milliseconds(kept_.request.timeout_ms), kConnecting));
  store.set(prefix + std::to_string(place), pair->addresses());
  const std::vector<char> theirs =
      store.get(prefix + std::to_string(1 - place), /*set_by=*/place == 0 ? replacement.text() : "");
  if (place == 1) {
    pair->connect(0, theirs);
    return pair;
  }
  const EndWatch watch(
      store, [&] { return store.await_end(replacement); }, *pair);
  pair->connect(1, theirs);
  if (watch.gone()) throw StoreError("its new process ended during the rendezvous");
  return pair;
}

// A closed connection with unread bytes keeps a thread of Gloo busy.
void GlooDoor::close_way_to(int rank) {
  const Way old = way_to(rank);
  if (old.context != nullptr) old.context->getPair(old.place)->close();
  ways_[rank] = {};
}

}  // namespace zero_gloo

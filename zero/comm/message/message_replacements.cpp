// How a lost rank comes back as a new process, over a MessageLink.
#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/comm/message/message_exchange.h"

namespace zero {

// In a replacement: marks the ranks that it has not met as having left.
void MessageCommunicator::leave_out_strangers() {
  const MessageLink::Door* const door = run_.link->door();
  if (door == nullptr || !door->is_replacement()) return;
  for (const int rank : peers())
    if (!door->has_met(rank)) run_.peers[rank].left = true;
}

int MessageCommunicator::waiting(RankSet lost) {
  for (const int rank : peers())
    if ((lost & only(rank)) != 0 && run_.link->door()->is_waiting(rank)) return rank;
  return -1;
}

void MessageCommunicator::introduce(int rank, RankSet peers) {
  std::vector<int> to_meet;
  for (int peer = 1; peer < world(); ++peer)
    if ((peers & only(peer)) != 0) to_meet.push_back(peer);
  to_meet.push_back(rank_);  // last, because then the process begins
  run_.link->door()->introduce(rank, to_meet);
}

void MessageCommunicator::take_back(int rank) {
  run_.watches = true;
  check_usable();
  forget_predecessor(rank);
  if (rank_ != 0) meet(rank);
}

void MessageCommunicator::let_in(int rank) {
  meet(rank);
}

// Drops everything in flight to the lost process, so its bytes may change or be freed. The rank is lost until the new
// process is met.
void MessageCommunicator::forget_predecessor(int rank) {
  const auto is_to_it = [rank](const Sending& sending) { return sending.to == rank; };
  std::erase_if(run_.sending, is_to_it);
  std::erase_if(run_.notices, is_to_it);
  num_sent_.erase(rank);
  num_received_.erase(rank);
  run_.peers[rank] = Peer{.may_be_lost = true, .lost = true, .came_back = true};
}

void MessageCommunicator::meet(int rank) {
  MessageLink::Door& door = *run_.link->door();
  Peer& peer = run_.peers.at(rank);
  peer.lost = !door.meet(rank);
  if (peer.lost) peer.reason = door.why();
}

void MessageCommunicator::refuse_collective_with(int peer, const Signature& own) {
  const auto known = run_.peers.find(peer);
  const bool came_back = known != run_.peers.end() && known->second.came_back;
  ZERO_CHECK(!came_back, "rank {} begins {} with rank {}, which restarted and takes part in no collective", rank_,
             describe(own), peer);
}

}  // namespace zero

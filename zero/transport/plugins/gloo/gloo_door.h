// GlooDoor: how the new process of a lost rank is met, over Gloo (MessageLink::Door).
//
// Ranks meet once in one context of Gloo, the mesh. A new process gets no place there: with each of the ranks that take it
// back it makes a context of two. They find each other in the store of rank 0, under keys that begin with the rank and the
// number of the process. In such a context the one that takes back is 0, the new process 1.
//
// Throws nothing but where it says so. Local.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include "rendezvous_store.h"

namespace zero_gloo {

class GlooDoor final : public zero::MessageLink::Door {
 public:
  // `server`: on rank 0. `mesh`: null in a new process.
  GlooDoor(const zero::LinkRequest& request, std::unique_ptr<StoreServer> server,
           std::shared_ptr<gloo::transport::Device> device, std::shared_ptr<gloo::Context> mesh);

  // In a new process, whose connection to rank 0 `store` is: waits until rank 0 takes it back, and meets its peers. The
  // connection stays: by its end others see that of the process. Throws StoreError, and what Gloo throws.
  void come(std::unique_ptr<RendezvousStore> store);

  // How a rank is reached. The context is null where it is not.
  struct Way {
    std::shared_ptr<gloo::Context> context;
    int place = 0;  // of that rank in it
  };
  Way way_to(int rank) const;
  // The run has failed.
  void abandon();

  int most() const override { return kept_.request.most_replacements; }
  bool is_replacement() const override { return kept_.request.replacement > 0; }
  bool is_waiting(int rank) override;
  void introduce(int rank, std::span<const int> peers) override;
  bool meet(int rank) override;
  const char* why() const override { return why_.c_str(); }
  bool has_met(int rank) const override { return ways_.contains(rank); }

 private:
  // With the texts that it points to.
  struct KeptRequest {
    explicit KeptRequest(const zero::LinkRequest& from);
    KeptRequest(const KeptRequest&) = delete;
    KeptRequest& operator=(const KeptRequest&) = delete;

    std::string address, run_id, token;
    zero::LinkRequest request;
  };

  std::shared_ptr<gloo::Context> connect(RendezvousStore& store, const Replacement& replacement, int peer);
  void close_way_to(int rank);

  KeptRequest kept_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::Context> mesh_;
  std::map<int, Way> ways_;  // to those that were met here
  std::unique_ptr<RendezvousStore> store_;
  std::unique_ptr<StoreServer> server_;
  std::map<int, Replacement> waiting_;  // on rank 0: the newest that was seen, by rank
  std::map<int, int> introduced_;       // on rank 0: numbers
  std::string why_;
};

}  // namespace zero_gloo

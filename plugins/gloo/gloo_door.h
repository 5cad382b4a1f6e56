// GlooDoor: connects ranks with the new process of a lost rank, over Gloo (MessageLink::Door).
//
// All ranks meet once in one context of Gloo, the mesh. A new process gets no place there: it makes a context of two
// with each rank that takes it back. They find each other in the store of rank 0, under keys that begin with the rank
// and the number of the process. In such a context, the rank that takes back is 0, and the new process 1.
//
// Throws only as stated. Local.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include "plugins/gloo/rendezvous_store.h"

namespace zero_gloo {

class GlooDoor final : public zero::MessageLink::Door {
 public:
  // `server`: only on rank 0. `mesh`: null in a new process.
  GlooDoor(const zero::LinkRequest& request, std::unique_ptr<StoreServer> server,
           std::shared_ptr<gloo::transport::Device> device, std::shared_ptr<gloo::Context> mesh);

  // In a new process with the connection `store` to rank 0: waits until rank 0 takes it back, and meets its peers. The
  // connection stays open, because its end shows others the end of the process. Throws StoreError and Gloo's
  // exceptions.
  void come(std::unique_ptr<RendezvousStore> store);

  // The connection to a rank. The context is null if there is none.
  struct Way {
    std::shared_ptr<gloo::Context> context;
    int place = 0;  // rank of that rank in the context
  };
  Way way_to(int rank) const;
  // Ends the door, because the run has failed.
  void abandon();

  int most() const override { return kept_.request.most_replacements; }
  bool is_replacement() const override { return kept_.request.replacement > 0; }
  bool is_waiting(int rank) override;
  void introduce(int rank, std::span<const int> peers) override;
  bool meet(int rank) override;
  const char* why() const override { return why_.c_str(); }
  bool has_met(int rank) const override { return ways_.contains(rank); }

 private:
  // The request, with copies of the texts that it points to.
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
  std::map<int, Way> ways_;  // connections to ranks that were met here
  std::unique_ptr<RendezvousStore> store_;
  std::unique_ptr<StoreServer> server_;
  std::map<int, Replacement> waiting_;  // only on rank 0: the newest known replacement, by rank
  std::map<int, int> introduced_;       // only on rank 0: numbers of introduced replacements, by rank
  std::string why_;
};

}  // namespace zero_gloo

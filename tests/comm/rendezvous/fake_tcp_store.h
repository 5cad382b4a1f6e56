// FakeTcpStore: a PyTorch TCPStore server for validate, set, get and wait, written from its protocol. OneAnswer: a
// server that sends the same bytes to its client.
//
//   FakeTcpStore store;                       // listens at 127.0.0.1, store.port()
//   store.put("/zero/x", "left by a round before");
//   store.wait_for("get /zero/x");            // until a client has sent this request
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/files/file.h"

namespace zero {

// Listens at a free port of 127.0.0.1.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    if (bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(fd_.get(), 16) != 0 ||
        getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
      throw std::runtime_error("no free port");
    }
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }
  int get() const { return fd_.get(); }
  FileDescriptor accept() const { return FileDescriptor(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  FileDescriptor fd_;
  int port_ = 0;
};

class FakeTcpStore {
 public:
  FakeTcpStore() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  int port() const { return listener_.port(); }

  void put(const std::string& key, const std::string& value) {
    const std::scoped_lock lock(mutex_);
    values_[key] = value;
  }
  std::string value(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    return values_[key];
  }
  // The clients' requests in order: "validate", "set /k", "wait /k", "get /k".
  std::vector<std::string> requests() {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }
  bool wait_for(const std::string& request) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return std::ranges::find(requests_, request) != requests_.end(); });
  }

 private:
  struct Client {
    FileDescriptor socket;
    std::string waits_for;
  };

  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> polls{{.fd = listener_.get(), .events = POLLIN}};
      for (const Client& client : clients_) polls.push_back({.fd = client.socket.get(), .events = POLLIN});
      poll(polls.data(), polls.size(), 10);
      for (std::size_t i = clients_.size(); i-- > 0;) {
        if (polls[i + 1].revents != 0 && !serve(clients_[i])) clients_.erase(clients_.begin() + std::ptrdiff_t(i));
      }
      if (polls[0].revents != 0) clients_.push_back({.socket = listener_.accept()});
      for (Client& client : clients_) answer_wait(client);
    }
  }

  bool serve(Client& client) {
    char operation = 0;
    if (!read(client, &operation, 1)) return false;
    std::string key, value;
    std::uint32_t magic = 0;
    std::uint64_t number = 0;
    switch (operation) {
      case 0:
        if (!read(client, &magic, 4) || magic != 0x3C85F7CE) return false;
        note("validate");
        return true;
      case 1:
        if (!read_text(client, key) || !read_text(client, value)) return false;
        put(key, value);
        note("set " + key);
        return true;
      case 3: {
        if (!read_text(client, key)) return false;
        value = this->value(key);
        number = value.size();
        write(client, {reinterpret_cast<const char*>(&number), sizeof number});
        write(client, value);
        note("get " + key);
        return true;
      }
      case 6:
        if (!read(client, &number, sizeof number) || number != 1 || !read_text(client, client.waits_for)) return false;
        note("wait " + client.waits_for);
        return true;
      default:
        return false;
    }
  }

  void answer_wait(Client& client) {
    const std::scoped_lock lock(mutex_);
    if (client.waits_for.empty() || !values_.contains(client.waits_for)) return;
    write(client, std::string(1, '\0'));
    client.waits_for.clear();
  }

  void note(const std::string& request) {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
    changed_.notify_all();
  }

  static bool read(const Client& client, void* data, std::size_t bytes) {
    return bytes == 0 || recv(client.socket.get(), data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  static bool read_text(const Client& client, std::string& text) {
    std::uint64_t bytes = 0;
    if (!read(client, &bytes, sizeof bytes) || bytes > (8u << 20)) return false;
    text.resize(bytes);
    return read(client, text.data(), bytes);
  }
  static void write(const Client& client, const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t part = send(client.socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (part <= 0) return;
      sent += static_cast<std::size_t>(part);
    }
  }

  Listener listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> requests_;
  std::vector<Client> clients_;
  std::jthread thread_;  // last, because it uses the other members
};

// Sends `bytes` to one client. Then it stays silent, or closes the connection.
class OneAnswer {
 public:
  OneAnswer(std::string bytes, bool hang_up)
      : thread_([this, bytes = std::move(bytes), hang_up](const std::stop_token& stop) {
          const FileDescriptor client = listener_.accept();
          // Sends only after the client's first request. Otherwise a reset could discard the bytes before a hang-up.
          char request[512];
          recv(client.get(), request, sizeof request, 0);
          send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (hang_up) shutdown(client.get(), SHUT_WR);
          while (recv(client.get(), request, sizeof request, 0) > 0) {
          }
        }) {}
  int port() const { return listener_.port(); }

 private:
  Listener listener_;
  std::jthread thread_;
};

}  // namespace zero

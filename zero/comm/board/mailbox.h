// Mailbox: the messages to this rank that have come, of a transport that holds a limited number of unread messages.
//
//   Mailbox* const mailbox = comm.mailbox();   // null: messages do not wait for room
//   mailbox->while_waiting([&] { return receive_what_has_come(); });
//   ...
//   mailbox->while_waiting({});
//
// If a receiver does not read its messages, a send waits for it. So ranks can wait for each other in a circle: each
// waits for one rank, and reads no message of the others. There is no such circle if ranks receive in all of their
// waits. A rank must receive at the latest when messages to it fill its part of a sender's room
// (docs/decisions/0129-waiting-ranks-receive-messages.md).
//
// Local, all functions.
#pragma once

#include <functional>

namespace zero {

class Mailbox {
 public:
  virtual ~Mailbox() = default;

  // Returns true if the next `number` messages from this rank have come. receive() and wait() then wait for nobody.
  virtual bool has_messages(int from, int number) = 0;
  bool has_message(int from) { return has_messages(from, 1); }
  // Returns how many messages a rank may have sent that their receivers have not read.
  virtual int room() const = 0;
  // Sets a function that receives messages that have come, and returns true if it received any; empty: none. Each wait
  // for another rank calls it soon after each message, in the whole run and in its groups. Only waits of arrivals() do
  // not. The function must not begin anything else, and must not wait. Its errors end the wait.
  virtual void while_waiting(std::function<bool()> receive) = 0;
};

}  // namespace zero

// Package faultproxy is a TCP proxy between a client and a real Redis server that breaks
// connections at chosen commands: "the server runs this one, and its reply is lost".
//
// It reads the requests of each connection (pipelined, or in pieces, as they come) and pairs the
// replies with them in order, so that a fault hits one command and not one packet. A [Rule] says
// which request and what happens. Where a test shows that the library survives a fault, a control
// without that protection shows that the fault is real.
//
// Not promised: pairing after CLIENT REPLY OFF or SKIP. A connection that has subscribed is passed
// on frame by frame: rules for its requests still hold, but those for replies (DropReply,
// HoldReply, [Proxy.DelayReply]) do not, as its answers and messages cannot be told apart under
// RESP2. Throttling is not offered.
package faultproxy

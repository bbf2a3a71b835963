// Package live keeps a picture of the locks in Redis current, at a bounded cost to the servers.
//
// Names are found in two ways. A pass goes over the keys, which takes a server with a million of them
// more than a second, so it is spread over minutes. Who is waited for is known to the server by its
// channels, which are few, so these are asked for often. [Picture.Look] looks at names of the caller's
// choice, such as those on a screen.
//
// # What is promised
//
// All of it together takes a share of each server's time. Looks have a part of that, and channels have
// one; a pass has what these leave. Before a command is sent, its share must have grown by what the
// ones before have cost. What they cost the server says itself: each round trip begins and ends with
// TIME. That is no less than the server's own account of the commands: it has in it what the server did
// for others in between, and where other programs kept the processor from it. So over any period the
// server spends no more than the share, one round trip of each, and a small credit that is spent once,
// so that small servers are seen at once.
//
// # What is not promised
//
//   - That the picture is of one moment. Each row says when it was seen.
//   - That a lock is in it which came since the last pass, and for which nobody waits.
//   - What the server does beside commands: reading requests from sockets, and writing replies. That
//     is measured in docs/command-line.md.
//   - That grants are counted: see package grantrate.
package live

// Package engine is who holds what, from the request for a lock to its end: owners, grants, holds,
// leases and how they are handed on. Package holdfast is its public face, and the kinds of lock are
// built on it.
//
// Types that users see under the same name in package holdfast are defined there by those here, and
// documented there.
//
// Its files have an order: each uses those below it, see floors_test.go in the root. From the top:
// Close; the request for a lock, and its attempts; hand-off and unlock; grants and owners; tenures,
// holds and locks; the client; what backends are; options and reasons.
//
// It promises nothing to anybody outside this module.
package engine

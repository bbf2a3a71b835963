// Package holdfastcertmagic lets certmagic, and so Caddy, obtain each certificate in one process at a
// time. It puts locks on Redis in the place of a storage's own, and leaves the certificates where they
// are.
//
//	certmagic.Default.Storage = holdfastcertmagic.New(storage, func(name string) holdfast.Locker {
//		return rlock.New(client, "certmagic:"+name)
//	})
//
// The locks wake their waiters, and are renewed for as long as the process lives; certmagic holds
// one while it tries to obtain a certificate, which may take days. All processes must have this storage:
// one with another does not see the locks.
//
// # Names
//
// Certmagic names its locks after domains and accounts, such as issue_cert_*.example.com and
// register_acme_account_<mail address>. The address is then part of a key in Redis. If it must not be,
// make the lock's name of a hash in the function.
//
// # Who is told of a loss
//
// Certmagic has no place for the context of the hold. Before each attempt to obtain a certificate it asks
// for a longer lease: [Storage.RenewLockLease] takes a lock anew that was lost, and if somebody else has
// it returns [holdfast.ErrLost], and the attempt is not made. An attempt that is under way goes on,
// while another process may make one, too: a certificate is then issued twice, which costs rate limits
// and nothing else. The fencing token is not checked: a Storage has no place for it.
//
// # Not promised
//
//   - That two of one process who lock one name are kept apart after the first has lost the lock to the
//     second: certmagic asks by name only.
//   - That optional interfaces of the storage stay visible, other than those of locks.
//   - That locks of one name in two storages of a process are told apart when it ends:
//     certmagic.CleanUpOwnLocks knows them by name only.
package holdfastcertmagic

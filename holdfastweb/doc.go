// Package holdfastweb provides a page that shows the locks in Redis: who has them and since when,
// who waits, how often each is granted, and what looks wrong. Above them it shows deadlocks. The page
// is an [http.Handler]. Mount it in a service's own mux.
//
//	page, err := holdfastweb.New(rdb, nil)
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/admin/locks/", requireLogin(page))
//
// The page works below any path that ends in a slash, with http.StripPrefix and without, as all its
// links are relative. Anybody who can reach it can read the names of locks and who holds them: put
// your own authentication in front. There is nothing to build and nothing to load from elsewhere.
//
// The page is read-only. With [Options.Permit] permitted people can end a hold: that of the owner
// and the grant that they saw, and no other. The page logs each attempt. It refuses a request from
// another site's page, and only a POST changes anything. Everything works without JavaScript. With
// it the page is live.
//
// # What it costs
//
// One poller asks Redis, however many people look, and none while nobody does. It goes through all
// keys in small steps (see package inspect). Then it pauses, so that it takes at most
// [Options.Share] of the time, 1 % by default. So the list is a second old if there are few keys,
// and some minutes if there are a million. In between, the poller asks for the rows that somebody
// looks at. It keeps at most [Options.MaxLocks] locks, and a page has [Options.Rows] rows.
//
// Searches for deadlocks have a part of the same share, and begin only while somebody looks. Each goes
// through all keys. There are at least ten times [Options.Every] between two of them. One that sees a
// deadlock goes on until it is certain, for up to about a minute, even if the last viewer leaves.
//
// # What is not promised
//
// A list is not of one moment. The page does not see a lock that was taken and released between two
// looks. Grants per second are an estimate from the fencing tokens of the last half minute; there are none
// where the page looked too rarely. A deadlock is shown as clients publish it, if they found waits of
// LongWait of holdfast.Options whose callers hold other locks, and if all of its names match
// [Options.Match]. Other deadlocks are not seen: see Deadlocks of package inspect.
// The page cannot show which callers wait for a plain lock, only how many connections listen.
// Of a replica the page says so: a replica does not know who listens, and ends no hold. Package inspect
// says what else the page cannot know.
package holdfastweb

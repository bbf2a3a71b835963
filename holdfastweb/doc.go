// Package holdfastweb is a page that shows the locks in Redis: who has them and since when, who waits,
// and what looks wrong. It is an [http.Handler], to be mounted in a service's own mux.
//
//	page, err := holdfastweb.New(rdb, nil)
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/admin/locks/", requireLogin(page))
//
// It works below any path that ends in a slash, with http.StripPrefix and without, as all its links
// are relative. Whoever can reach it reads the names of locks and who holds them: put your own
// authentication in front. There is nothing to build and nothing to load from elsewhere.
//
// The page is read-only. With [Options.Permit] people who may can end a hold: of the owner and the
// grant that they saw, and of no other. Each attempt is logged. A request from another site's page is
// refused, and nothing but a POST changes anything. Everything works without JavaScript. With it the
// page is live.
//
// # What it costs
//
// One poller asks Redis, however many people look, and none while nobody does. It goes through all keys
// in small steps (see package inspect), then pauses for so long that it has taken at most
// [Options.Share] of the time, 1 % by default. So the list is a second old where there are few keys, and
// some minutes where there are a million. The rows that somebody looks at are asked for in between. It
// keeps [Options.MaxLocks] locks at most, and a page has [Options.Rows] rows.
//
// # What is not promised
//
// A list is not of one moment. A lock that was taken and released between two looks is not seen. Who
// waits for a plain lock cannot be told, only how many listen. See package inspect for what cannot be
// told of locks at all.
package holdfastweb

package holdfastmigrate_test

import (
	"database/sql"
	"fmt"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	holdfastmigrate "github.com/holdfast-go/holdfast/adapters/migrate"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Each process runs this when it starts; one migrates, and the others wait for it.
func Example() {
	client, end := adaptertest.ForExample() // as holdfast.New makes one for each process
	defer end()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	db.SetMaxOpenConns(1) // of this database in memory
	own, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := iofs.New(fstest.MapFS{"m/1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER);")}}, "m")
	if err != nil {
		fmt.Println(err)
		return
	}

	driver := holdfastmigrate.New(own, rlock.New(client, "migrations"), 0)
	m, err := migrate.NewWithInstance("iofs", files, "sqlite", driver)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Up()) // errors.Is(err, holdfast.ErrLost): another process may have migrated too
	fmt.Println(m.Close())
	// Output:
	// <nil>
	// <nil> <nil>
}

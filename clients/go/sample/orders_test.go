package orders

import (
	"slices"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"

	nereidtest "nereid/clients/go"
)

var (
	monday  = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	tuesday = monday.AddDate(0, 0, 1)
)

func open(t *testing.T) *Orders {
	t.Helper()
	node := nereidtest.Shared(t)
	cluster := gocql.NewCluster(node.Host)
	cluster.Port = node.Port
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	keyspace := nereidtest.Keyspace(t, func(s string) error { return session.Query(s).Exec() })
	orders, err := Open(session, keyspace)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

func TestOrdersComeNewestFirst(t *testing.T) {
	orders := open(t)
	for day, total := range map[time.Time]int64{monday: 1990, tuesday: 500} {
		if added, err := orders.Add(7, day, inf.NewDec(total, 2)); err != nil || !added {
			t.Fatal(added, err)
		}
	}
	totals, err := orders.Totals(7)
	if err != nil || !slices.Equal(totals, []string{"5.00", "19.90"}) {
		t.Fatal(totals, err)
	}
}

func TestACustomerHasOneOrderADay(t *testing.T) {
	orders := open(t)
	for _, isNew := range []bool{true, false} {
		if added, err := orders.Add(7, monday, inf.NewDec(1990, 2)); err != nil || added != isNew {
			t.Fatal(added, err)
		}
	}
}

func TestEachTestBeginsWithAnEmptyKeyspace(t *testing.T) {
	if totals, err := open(t).Totals(7); err != nil || len(totals) != 0 {
		t.Fatal(totals, err)
	}
}

//! A writer and a compactor both write manifests, each as a new object that must not exist. With a server that checks
//! first and writes later, both succeed; then one of the manifests is lost, with the SSTs that only it names.

use std::path::Path;

use sstfilter_distributed::Result;
use sstfilter_distributed::cluster::Cluster;
use sstfilter_distributed::process::Process;
use sstfilter_distributed::protocol::{Answer, Filters, Request};

const OBJECTS: usize = 200;
const PROCESSES: usize = 4;

async fn creator(cluster: &mut Cluster) -> Result<(String, Process)> {
    let config = cluster.config("creator", "", Filters::None);
    Ok((config.name.clone(), cluster.spawn("creator", &config).await?))
}

#[tokio::test]
async fn of_processes_that_create_one_object_exactly_one_succeeds() -> Result<()> {
    let mut cluster = Cluster::start(Path::new(env!("CARGO_BIN_EXE_sstfilter-distributed"))).await?;
    let mut creators = Vec::new();
    for _ in 0..PROCESSES {
        creators.push(creator(&mut cluster).await?);
    }
    for object in 0..OBJECTS {
        let key = format!("manifest/{object:020}");
        for (_, creator) in &mut creators {
            creator.send(&Request::Create(key.clone())).await?;
        }
        let mut winners = Vec::new();
        for (name, creator) in &mut creators {
            if let Answer::Created(true) = creator.answer().await? {
                winners.push(name.clone());
            }
        }
        assert_eq!(winners.len(), 1, "{key} was created by {winners:?}");
        let stored = creators[0].1.get(std::slice::from_ref(&key)).await?;
        assert_eq!(stored, [winners.pop()], "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn of_processes_that_replace_one_object_none_undoes_the_work_of_another() -> Result<()> {
    let mut cluster = Cluster::start(Path::new(env!("CARGO_BIN_EXE_sstfilter-distributed"))).await?;
    let client = sstfilter_distributed::roles::object_store(cluster.endpoint(), "first")?;
    let path = object_store::path::Path::from("counter");
    object_store::ObjectStoreExt::put(client.as_ref(), &path, "0".into()).await?;
    let mut creators = Vec::new();
    for _ in 0..PROCESSES {
        creators.push(creator(&mut cluster).await?.1);
    }
    let (mut replaced, mut refused) = (0, 0);
    for _ in 0..OBJECTS {
        for creator in &mut creators {
            creator.send(&Request::Increment("counter".to_owned())).await?;
        }
        let before = replaced;
        for creator in &mut creators {
            match creator.answer().await? {
                Answer::Created(true) => replaced += 1,
                _ => refused += 1,
            }
        }
        assert!(replaced > before, "each was refused");
    }
    let stored = creators[0].get(&["counter".to_owned()]).await?;
    assert_eq!(stored, [Some(replaced.to_string())], "{refused} were refused");
    assert!(refused > 0, "no two replaced it at once");
    Ok(())
}

#[tokio::test]
async fn every_request_is_logged_before_its_answer_can_be_read() -> Result<()> {
    let mut cluster = Cluster::start(Path::new(env!("CARGO_BIN_EXE_sstfilter-distributed"))).await?;
    let (name, mut creator) = creator(&mut cluster).await?;
    for object in 0..OBJECTS {
        let key = format!("object-{object}");
        creator.ask(&Request::Create(key.clone())).await?;
        creator.get(std::slice::from_ref(&key)).await?;
        let requests = cluster.requests()?;
        let logged: Vec<_> = requests.iter().filter(|request| request.key == key).collect();
        let methods: Vec<_> = logged.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(methods, ["PUT", "GET"]);
        assert!(logged.iter().all(|request| request.client == name && request.complete && request.status == 200));
        assert_eq!(logged[1].bytes_sent, name.len() as u64);
    }
    Ok(())
}
